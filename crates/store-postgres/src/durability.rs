//! What an acknowledged commit survives, by the live settings of the server. Owns which settings are refused.

use crate::link::Link;
use crate::open_error::OpenError;
use crate::options::Options;
use weft_store::{Durability, Level};

const QUERY: &str = "\
select current_setting('server_version_num')::bigint, current_setting('server_version'),
    current_setting('server_encoding'), pg_is_in_recovery(), current_setting('fsync'),
    current_setting('full_page_writes'), current_setting('synchronous_commit'),
    current_setting('data_sync_retry'), current_setting('synchronous_standby_names')";

pub const VERSION_MIN: i64 = 140_000;

/// The settings that decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub version: i64,
    pub version_name: String,
    pub encoding: String,
    pub in_recovery: bool,
    pub fsync: String,
    pub full_page_writes: String,
    pub synchronous_commit: String,
    pub data_sync_retry: String,
    pub standbys: String,
}

/// A setting that puts acknowledged commits in danger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Danger<'a> {
    pub name: &'static str,
    pub found: &'a str,
    pub wanted: &'static str,
    pub danger: &'static str,
}

impl Settings {
    pub async fn read(link: &mut Link) -> Result<Self, OpenError> {
        let failed = OpenError::postgres("read the settings of the server");
        let rows = link.ask(QUERY, &[]).await.map_err(&failed)?;
        let row = rows.first().ok_or(OpenError::Pooler { why: "a query came back without its row" })?;
        let text = |at: usize| row.try_get::<_, String>(at).map_err(&failed);
        Ok(Self {
            version: row.try_get(0).map_err(&failed)?,
            version_name: text(1)?,
            encoding: text(2)?,
            in_recovery: row.try_get(3).map_err(&failed)?,
            fsync: text(4)?,
            full_page_writes: text(5)?,
            synchronous_commit: text(6)?,
            data_sync_retry: text(7)?,
            standbys: text(8)?,
        })
    }

    /// Refuses a server that cannot hold what the store promises.
    pub fn check(&self, options: &Options) -> Result<(), OpenError> {
        if self.version < VERSION_MIN {
            return Err(OpenError::Version { found: self.version_name.clone() });
        }
        if self.encoding != "UTF8" {
            return Err(OpenError::Encoding { found: self.encoding.clone() });
        }
        if self.in_recovery {
            return Err(OpenError::Recovery);
        }
        match self.dangers().first() {
            Some(found) if !options.accept_data_loss => Err(OpenError::Setting {
                name: found.name,
                found: found.found.to_owned(),
                wanted: found.wanted,
                danger: found.danger,
            }),
            _ => Ok(()),
        }
    }

    pub fn dangers(&self) -> Vec<Danger<'_>> {
        let mut dangers = Vec::new();
        let mut unless = |good: bool, name, found, wanted, danger| {
            if !good {
                dangers.push(Danger { name, found, wanted, danger });
            }
        };
        let (fsync, pages, retry) = (&self.fsync, &self.full_page_writes, &self.data_sync_retry);
        unless(fsync == "on", "fsync", fsync, "on", "a crash of the machine can lose or damage everything");
        unless(pages == "on", "full_page_writes", pages, "on", "a crash of the machine can leave half-written pages");
        unless(retry == "off", "data_sync_retry", retry, "off", "a failed fsync can be taken for a good one");
        let commit = self.synchronous_commit.as_str();
        let (sound, danger) = match commit {
            "on" | "remote_apply" => (true, ""),
            "local" | "remote_write" => {
                (!self.has_standbys(), "a commit is acknowledged before the synchronous standbys have it on disk")
            }
            _ => (false, "acknowledged commits are lost when the server stops"),
        };
        unless(sound, "synchronous_commit", commit, "on", danger);
        dangers
    }

    fn has_standbys(&self) -> bool {
        !self.standbys.trim().is_empty()
    }

    /// What to tell about commits on this server.
    pub fn durability(&self) -> Durability {
        let sentences = |level, acknowledged: &str, can_lose: &[&str]| Durability {
            level,
            acknowledged: acknowledged.to_owned(),
            can_lose: can_lose.iter().map(|sentence| (*sentence).to_owned()).collect(),
            verified: true,
        };
        let dangers = self.dangers();
        if !dangers.is_empty() {
            let mut told = sentences(Level::Memory, "it is in the memory of the server, as its settings allow", &[]);
            told.can_lose = dangers
                .iter()
                .map(|danger| format!("`{}` is `{}`: {}", danger.name, danger.found, danger.danger))
                .collect();
            return told;
        }
        match self.has_standbys() {
            true => sentences(
                Level::Replicated,
                "its commit record is flushed on the primary and on the synchronous standbys: it survives kill -9, a \
                 power cut and the loss of the primary",
                &["the tail that was not yet shipped, if an asynchronous standby is promoted"],
            ),
            false => sentences(
                Level::Local,
                "its commit record is flushed on the primary: it survives kill -9, a kernel crash and a power cut on a \
                 disk that does not lie",
                &[
                    "everything, if the disk of the primary is lost",
                    "the tail that was not yet shipped, if an asynchronous standby is promoted",
                ],
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Settings {
        Settings {
            version: 150_004,
            version_name: "15.4".to_owned(),
            encoding: "UTF8".to_owned(),
            in_recovery: false,
            fsync: "on".to_owned(),
            full_page_writes: "on".to_owned(),
            synchronous_commit: "on".to_owned(),
            data_sync_retry: "off".to_owned(),
            standbys: String::new(),
        }
    }

    fn options(parameters: &str) -> Options {
        Options::from_url(&format!("postgres://localhost/x?{parameters}")).unwrap()
    }

    #[test]
    fn rl_50_each_weak_setting_is_refused_by_its_name() {
        let with = |change: &dyn Fn(&mut Settings)| {
            let mut settings = sound();
            change(&mut settings);
            settings
        };
        let synchronous = |value: &str, standbys: &str| {
            let (value, standbys) = (value.to_owned(), standbys.to_owned());
            with(&move |settings| {
                (settings.synchronous_commit, settings.standbys) = (value.clone(), standbys.clone());
            })
        };
        let refused = [
            ("fsync", with(&|settings| settings.fsync = "off".into())),
            ("full_page_writes", with(&|settings| settings.full_page_writes = "off".into())),
            ("data_sync_retry", with(&|settings| settings.data_sync_retry = "on".into())),
            ("synchronous_commit", synchronous("off", "")),
            ("synchronous_commit", synchronous("local", "a")),
            ("synchronous_commit", synchronous("remote_write", "a")),
            ("synchronous_commit", synchronous("sometimes", "")),
        ];
        for (name, settings) in refused {
            let error = settings.check(&options("")).unwrap_err();
            assert!(matches!(&error, OpenError::Setting { name: told, .. } if *told == name), "{error}");
            settings.check(&options("accept_data_loss=true")).unwrap();
            let told = settings.durability();
            assert_eq!(told.level, Level::Memory);
            assert!(told.can_lose[0].contains(name), "{told:?}");
        }
        let accepted = [
            (synchronous("on", ""), Level::Local),
            (synchronous("remote_apply", ""), Level::Local),
            (synchronous("local", " "), Level::Local),
            (synchronous("remote_write", ""), Level::Local),
            (synchronous("on", "a"), Level::Replicated),
            (synchronous("remote_apply", "first 1 (a, b)"), Level::Replicated),
        ];
        for (settings, level) in accepted {
            settings.check(&options("")).unwrap();
            assert_eq!(settings.durability().level, level);
        }
    }

    #[test]
    fn no_acceptance_of_loss_makes_a_standby_or_an_old_server_do() {
        let lenient = options("accept_data_loss=true");
        let standby = Settings { in_recovery: true, ..sound() };
        assert!(matches!(standby.check(&lenient), Err(OpenError::Recovery)));
        let old = Settings { version: 139_999, version_name: "13.9".into(), ..sound() };
        assert!(matches!(old.check(&lenient), Err(OpenError::Version { .. })));
        let latin = Settings { encoding: "LATIN1".into(), ..sound() };
        assert!(matches!(latin.check(&lenient), Err(OpenError::Encoding { .. })));
    }
}
