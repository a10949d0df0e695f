//! Being asked to end, as a process is.

use tokio::signal::ctrl_c;

/// Ready when the process is asked to end: by Ctrl-C, and on Unix also by SIGTERM, which is what `kill`, systemd and
/// Kubernetes send. From the first poll on the process is no longer ended by them, so that a worker that is told by
/// `run_until(shutdown_signal())` has the time to drain.
pub async fn shutdown_signal() {
    #[cfg(unix)]
    match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                () = interrupt() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(error) => {
            tracing::warn!(%error, "could not listen for SIGTERM, which will end the process without a drain");
            interrupt().await;
        }
    }
    #[cfg(not(unix))]
    interrupt().await;
}

async fn interrupt() {
    if let Err(error) = ctrl_c().await {
        tracing::warn!(%error, "could not listen for Ctrl-C, which will end the process without a drain");
        std::future::pending().await
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn sdk_35_a_process_that_is_told_to_terminate_has_time_to_drain() {
        for signal in ["-TERM", "-INT"] {
            let mut told = Box::pin(shutdown_signal());
            // Heard from the first poll on; without it this process would end here.
            assert!(told.as_mut().now_or_never().is_none());
            let sent = std::process::Command::new("kill").args([signal, &std::process::id().to_string()]).status();
            assert!(sent.unwrap().success());
            told.await;
        }
    }
}
