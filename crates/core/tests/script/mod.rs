//! The one interpreter of scripts. A line is `at <time> <who> <verb> <execution> <field>=<value> …`; `at <time> scan`
//! fires what is due. Who is a worker, which keeps the fence of its last claim, or `client` or `operator`.

mod show;
mod verbs;

use crate::kit::World;
use std::collections::BTreeMap;
use std::fmt::Write;
use weft_core::command::{Call, Fence, Principal, Scopes};
use weft_core::id::ExecutionId;
use weft_core::record::Key;
use weft_core::record::execution::State;
use weft_core::reply::Reply;

/// A script under way.
pub struct Script {
    world: World,
    names: BTreeMap<String, ExecutionId>,
    fences: BTreeMap<(String, String), Fence>,
    out: String,
    seen: usize,
}

/// One line, taken apart.
pub struct Line<'a> {
    pub who: &'a str,
    pub verb: &'a str,
    pub target: &'a str,
    fields: BTreeMap<&'a str, &'a str>,
}

impl<'a> Line<'a> {
    fn parse(words: &[&'a str]) -> Line<'a> {
        let (plain, fields): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| !word.contains('='));
        let fields = fields.into_iter().filter_map(|field| field.split_once('=')).collect();
        match plain[..] {
            [verb] => Line { who: "engine", verb, target: "", fields },
            [verb, target] => Line { who: "client", verb, target, fields },
            [who, verb, target] => Line { who, verb, target, fields },
            _ => panic!("not a command: {words:?}"),
        }
    }

    pub fn get(&self, field: &str) -> Option<&'a str> {
        self.fields.get(field).copied()
    }

    /// A number, or a time such as `5s`.
    pub fn ms(&self, field: &str) -> Option<u64> {
        self.get(field).map(parse_ms)
    }
}

/// `5s`, `1.5s`, `2m`, or plain milliseconds.
fn parse_ms(text: &str) -> u64 {
    let scaled = |number: &str, unit: f64| (number.parse::<f64>().expect("a time") * unit) as u64;
    match (text.strip_suffix('s'), text.strip_suffix('m')) {
        (Some(seconds), _) => scaled(seconds, 1_000.0),
        (_, Some(minutes)) => scaled(minutes, 60_000.0),
        _ => text.parse().expect("milliseconds"),
    }
}

/// The output of a script.
pub fn run(commands: &str) -> String {
    let mut script =
        Script { world: World::new(), names: BTreeMap::new(), fences: BTreeMap::new(), out: String::new(), seen: 0 };
    for line in commands.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            ["at", time, ref rest @ ..] => {
                let before = script.world.now;
                script.world.at(parse_ms(time));
                assert!(script.world.now > before || parse_ms(time) == before.ms(), "time goes on: {line}");
                script.step(&Line::parse(rest));
            }
            _ => panic!("not a line of a script: {line}"),
        }
    }
    script.out
}

impl Script {
    fn step(&mut self, line: &Line<'_>) {
        match line.verb {
            "scan" => self.scan(),
            "loses" => self.lose(line),
            _ => self.command(line),
        }
    }

    fn command(&mut self, line: &Line<'_>) {
        let command = self.build(line);
        let scopes = match line.who {
            "client" => Scopes::SUBMIT,
            "operator" => Scopes::OPERATE,
            _ => Scopes::WORK,
        };
        let principal = Principal::new("shop", line.who, scopes);
        let request_id = line.get("request").map(|id| bytes::Bytes::copy_from_slice(id.as_bytes()));
        let reply = self.world.call(&Call { principal, request_id, ..crate::kit::calls::call(command) });
        if let Ok(Reply::Claimed(claimed)) = &reply {
            let fence = Fence { lease: claimed.lease, epoch: claimed.epoch };
            self.fences.insert((line.who.into(), line.target.into()), fence);
        }
        let time = show::time(self.world.now);
        let answer = match &reply {
            Ok(reply) => show::reply(self, reply),
            Err(rejection) => show::refusal(self, rejection),
        };
        writeln!(self.out, "{time:<6} {} {} {} -> {answer}", line.who, line.verb, line.target).expect("a text");
        if reply.is_ok() {
            self.changes();
        }
    }

    fn scan(&mut self) {
        let due: Vec<_> = self.world.due.iter().filter(|entry| entry.at <= self.world.now).cloned().collect();
        if due.is_empty() {
            writeln!(self.out, "{:<6} scan -> nothing due", show::time(self.world.now)).expect("a text");
        }
        while let Some(entry) = self.world.due.first().filter(|entry| entry.at <= self.world.now).cloned() {
            let timer = entry.timer().expect("a known timer");
            let kind = weft_core::schema::Kind::from_u8(entry.kind).expect("a known kind");
            let key = Key::from_bytes(crate::kit::PARTITION, kind, &entry.key).expect("a known key");
            let reply = self.world.expire(key, timer, entry.at).expect("timers are not refused");
            let (time, of, answer) = (show::time(self.world.now), show::key(self, key), show::reply(self, &reply));
            writeln!(self.out, "{time:<6} scan {} {of} -> {answer}", timer.name()).expect("a text");
            self.changes();
        }
    }

    /// Claims and loses the lease again and again; tells the losses after which something new happens.
    fn lose(&mut self, line: &Line<'_>) {
        let id = self.id(line.target);
        let (times, lease_ms) = (line.ms("times").expect("times"), line.ms("lease_ms").expect("lease_ms"));
        let mut told = None;
        for loss in 1..=times {
            let claimed = self.world.claim_as(id, line.who, lease_ms);
            self.fences.insert((line.who.into(), line.target.into()), crate::kit::calls::fence(&claimed));
            let lost_at = self.world.now.ms() + lease_ms;
            self.world.at(lost_at);
            self.world.scan();
            let execution = self.world.execution(id);
            let until = match &execution.hot.state {
                State::Delayed { until, .. } => until.ms(),
                _ => lost_at,
            };
            let wait_ms = until - lost_at;
            let now = (execution.public_state(), wait_ms);
            if told != Some(now) {
                let state = execution.public_state().name();
                let hot = &execution.hot;
                writeln!(
                    self.out,
                    "       loss {loss} -> {state}, waits {wait_ms} ms, reclaims={} retries={} attempts={}",
                    hot.reclaims, hot.retries_used, hot.attempts
                )
                .expect("a text");
                told = Some(now);
            }
            if !execution.is_done() {
                self.world.at(until);
                self.world.scan();
            }
        }
        self.seen = self.world.events.len();
    }

    /// The records that the last command left, and its events.
    fn changes(&mut self) {
        let mut touched = self.world.touched.clone();
        // Every verb of an operator adds to the log; the tests of the log look at it.
        touched.retain(|key| !matches!(key, Key::Audit(..) | Key::Register(..)));
        touched.sort();
        for key in touched {
            let text = show::record(self, key);
            writeln!(self.out, "         {text}").expect("a text");
        }
        let events: Vec<String> = self.world.events[self.seen..].iter().map(|event| show::event(self, event)).collect();
        self.seen = self.world.events.len();
        if !events.is_empty() {
            writeln!(self.out, "         * {}", events.join(", ")).expect("a text");
        }
    }

    pub fn id(&self, name: &str) -> ExecutionId {
        *self.names.get(name).unwrap_or_else(|| panic!("{name} was submitted"))
    }

    pub fn name(&self, id: ExecutionId) -> String {
        let known = self.names.iter().find(|(_, known)| **known == id);
        known.map_or_else(|| id.to_string(), |(name, _)| name.clone())
    }
}
