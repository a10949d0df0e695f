//! The live view on a real terminal: looks at the server once a second, hears keys, and leaves the terminal as it was.

use super::draw::draw;
use super::state::{App, Wish};
use super::{read, read_workers};
use crate::End;
use crate::execution::get;
use crate::fault::{Code, Fault};
use crate::remote::Remote;
use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::pin::Pin;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use weft_api::node::Stats;
use weft_api::worker::Worker;

/// The terminal, taken over. Dropping it gives it back, however the view ends.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> Result<Self> {
        ratatui::try_init().map(Self).context("could not take over the terminal")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// How long the thread that hears keys goes without looking whether anybody still listens.
const HEARS: Duration = Duration::from_millis(200);

/// What a look at the server brought, and the execution that is open.
struct Look {
    stats: Result<Stats>,
    /// Nothing if they could not be read; then those that were known stay.
    workers: Option<Vec<Worker>>,
    open: Option<(String, Result<String>)>,
}

pub async fn run(remote: &Remote, first: Stats, workers: Vec<Worker>, every: Duration) -> Result<End> {
    let mut app = App::new(remote.colour.out.is_on());
    app.take(Ok(first));
    app.take_workers(workers);
    let mut ended = signal(SignalKind::terminate()).context("could not listen for signals")?;
    let mut screen = Screen::open()?;
    let mut heard = hear();
    let mut looking = look(remote, every, None);
    loop {
        screen.0.draw(|frame| draw(frame, &app)).context("could not draw")?;
        tokio::select! {
            looked = &mut looking => {
                take(&mut app, looked)?;
                looking = look(remote, every, open_id(&app));
            }
            event = heard.recv() => match event {
                None => return Ok(End::Done),
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => match app.key(key) {
                    Wish::None => {}
                    Wish::Quit => return Ok(End::Done),
                    Wish::Interrupt => return Ok(End::Interrupted),
                    Wish::Read(id) => looking = look(remote, Duration::ZERO, Some(id)),
                },
                // A new size is drawn by the next turn of the loop.
                Some(_) => {}
            },
            _ = ended.recv() => return Ok(End::Interrupted),
        }
    }
}

fn open_id(app: &App) -> Option<String> {
    app.open.as_ref().map(|open| open.id.clone())
}

/// Looks after a while. Kept across keys, so that typing does not put off the next look.
fn look<'a>(remote: &'a Remote, after: Duration, open: Option<String>) -> Pin<Box<dyn Future<Output = Look> + 'a>> {
    Box::pin(async move {
        tokio::time::sleep(after).await;
        let stats = read(remote).await;
        let workers = read_workers(remote).await.ok();
        let open = match open {
            Some(id) => {
                let text = get::text(remote, &id).await;
                Some((id, text))
            }
            None => None,
        };
        Look { stats, workers, open }
    })
}

/// A server that is away may come back; one that does not let us in will not change its mind.
fn take(app: &mut App, looked: Look) -> Result<()> {
    match looked.stats {
        Err(error) if Fault::exit_code(&error) == Code::NotAllowed as u8 => return Err(error),
        stats => app.take(stats.map_err(|error| format!("{error:#}"))),
    }
    if let Some(workers) = looked.workers {
        app.take_workers(workers);
    }
    if let Some((id, text)) = looked.open {
        app.show(&id, &text.unwrap_or_else(|error| format!("{error:#}")));
    }
    Ok(())
}

/// Keys and sizes as they come. The thread ends when nobody listens any more.
fn hear() -> mpsc::UnboundedReceiver<Event> {
    let (tell, heard) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while !tell.is_closed() {
            match event::poll(HEARS).and_then(|is_there| if is_there { event::read().map(Some) } else { Ok(None) }) {
                Ok(None) => {}
                Ok(Some(event)) => {
                    // Who no longer listens has ended; the loop sees that.
                    let _ = tell.send(event);
                }
                Err(_) => return,
            }
        }
    });
    heard
}
