//! A server for a measured engine, in this process, on a free port of the loopback device.

use anyhow::{Context, Result};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::sync::oneshot;
use weft_bench::Served;
use weft_engine::Engine;
use weft_server::{App, Listener, Options};

pub async fn serve(engine: &Engine) -> Result<Served> {
    let app = App::new(engine.clone(), Options::dev());
    let listener = Listener::bind(&app, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None).await?;
    let url = format!("http://{}", listener.address());
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(listener.run(async move { drop(stopped.await) }));
    let stop = Box::pin(async move {
        drop(stop);
        // How it ended is no figure.
        let _ = server.await.context("the server stopped");
    });
    Ok(Served { url, stop })
}
