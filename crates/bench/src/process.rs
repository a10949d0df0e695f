//! What this process uses, as the kernel tells it. Where there is no `/proc` the figures are absent.

use std::fs;

/// Kernel interfaces count CPU time in hundredths of a second, whatever the kernel's own tick is.
const TICKS_PER_S: f64 = 100.0;

/// Megabytes in memory now.
pub fn rss_mb() -> Option<f64> {
    status_mb("VmRSS:")
}

/// Megabytes in memory at the worst moment of the process.
pub fn rss_peak_mb() -> Option<f64> {
    status_mb("VmHWM:")
}

fn status_mb(field: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes / 1024.0)
}

/// Seconds of CPU, user and system, of all threads so far.
pub fn cpu_s() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the command in brackets and may hold anything; what follows the last bracket is regular.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let user: f64 = fields.get(11)?.parse().ok()?;
    let system: f64 = fields.get(12)?.parse().ok()?;
    Some((user + system) / TICKS_PER_S)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_understood() {
        assert!(rss_mb().unwrap() > 0.5);
        assert!(rss_peak_mb().unwrap() >= rss_mb().unwrap() * 0.5);
        assert!(cpu_s().unwrap() >= 0.0);
    }
}
