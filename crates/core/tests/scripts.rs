//! The scripts of `tests/scripts`: commands above the line, what came of them below. `UPDATE_SCRIPTS=1` rewrites what is
//! below; read it in the diff.

mod kit;
mod script;

use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

fn check(name: &str) {
    let path = folder().join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (commands, expected) = text.split_once("----\n").unwrap_or((&text, ""));
    let got = script::run(commands);
    if std::env::var_os("UPDATE_SCRIPTS").is_some() {
        std::fs::write(&path, format!("{commands}----\n{got}")).expect("the script can be rewritten");
        return;
    }
    let differs = expected.lines().zip(got.lines()).position(|(expected, got)| expected != got);
    let at = differs.unwrap_or(expected.lines().count().min(got.lines().count()));
    assert!(
        expected == got,
        "{name}: output line {}:\n  expected {:?}\n  got      {:?}",
        at + 1,
        expected.lines().nth(at),
        got.lines().nth(at)
    );
}

macro_rules! scripts {
    ($($name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )+

        #[test]
        fn every_script_is_run() {
            let mut files: Vec<String> = std::fs::read_dir(folder())
                .expect("the folder of scripts")
                .map(|file| file.expect("a file").path().file_stem().expect("a name").to_string_lossy().into_owned())
                .collect();
            files.sort();
            let mut names = vec![$(stringify!($name).to_owned()),+];
            names.sort();
            assert_eq!(files, names);
        }
    };
}

scripts!(
    sd_51_a_worker_comes_drains_and_comes_again,
    ex_14_holds_and_delays_in_every_order,
    ex_22_lost_replies_of_fenced_verbs,
    ex_29_start_in_the_past,
    ex_47_waiting_for_children,
    ex_53_101_leases_lost_in_a_row,
    ex_56_timeout_kept_over_three_pauses,
    ex_58_deadline_in_each_state,
    ex_61_cancel_in_each_state,
    ex_62_cancel_reaches_the_children,
    ex_65_force_in_each_state,
    ex_65_hold_in_each_state,
    ex_66_replay,
    ex_77_idempotency_key,
    ex_79_lost_replies_with_request_id,
    ex_86_steps_ride_on_other_verbs,
    sdk_20_the_first_write_of_a_step_wins,
    sdk_23_steps_over_retry_reclaim_delay_and_replay,
    worked_life,
);
