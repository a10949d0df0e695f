//! Looking through a large file for damage while it is in use: a start does not wait for gigabytes.

use crate::connection;
use crate::options::OpenError;
use rusqlite::{ErrorCode, InterruptHandle};
use std::path::Path;
use std::thread::{self, JoinHandle};

/// A check that is under way.
pub struct Check {
    interrupt: InterruptHandle,
    thread: JoinHandle<()>,
}

impl Check {
    /// Begins to check the file. `report` is told what is wrong, if anything is; never after `stop`.
    pub fn spawn(path: &Path, report: impl FnOnce(String) + Send + 'static) -> Result<Self, OpenError> {
        let failed = |source| OpenError::sqlite(path, source);
        let connection = connection::reader(path, 0).map_err(failed)?;
        let interrupt = connection.get_interrupt_handle();
        let check = move || match connection::check(&connection, "quick_check") {
            Ok(None) => tracing::info!("the store was not closed; it has been checked and is whole"),
            Ok(Some(what)) => report(what),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {}
            Err(error) => report(error.to_string()),
        };
        let thread = thread::Builder::new().name("weft-check".to_owned()).spawn(check).map_err(OpenError::Thread)?;
        Ok(Self { interrupt, thread })
    }

    /// Ends it, wherever it is, and waits until its connection is closed.
    pub fn stop(self) {
        // An interrupt that comes before the statement begins has no effect.
        while !self.thread.is_finished() {
            self.interrupt.interrupt();
            thread::yield_now();
        }
        // It has no more to say if it panicked.
        drop(self.thread.join());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;
    use std::fs;
    use std::sync::mpsc;

    fn filled(path: &Path) {
        let connection = Connection::open(path).unwrap();
        connection
            .execute_batch(
                "create table rows (id integer primary key, body blob);
                with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 5000)
                insert into rows select n, randomblob(500) from numbers;",
            )
            .unwrap();
    }

    #[test]
    fn rl_78_a_whole_file_has_nothing_to_report_and_a_damaged_one_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        filled(&path);
        let (sender, reports) = mpsc::channel();
        let report = |sender: mpsc::Sender<String>| move |what| sender.send(what).unwrap();
        Check::spawn(&path, report(sender.clone())).unwrap().thread.join().unwrap();
        assert!(reports.try_recv().is_err());

        let mut bytes = fs::read(&path).unwrap();
        let half = bytes.len() / 2;
        bytes[half..].iter_mut().for_each(|byte| *byte ^= 0x5a);
        fs::write(&path, bytes).unwrap();
        Check::spawn(&path, report(sender)).unwrap().thread.join().unwrap();
        assert!(!reports.recv().unwrap().is_empty());
    }

    #[test]
    fn a_check_that_is_stopped_ends_and_takes_that_for_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        filled(&path);
        let (sender, reports) = mpsc::channel();
        Check::spawn(&path, move |what| sender.send(what).unwrap()).unwrap().stop();
        assert_eq!(reports.try_recv().ok(), None);
    }
}
