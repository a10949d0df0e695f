//! The process as the system sees it, from `/proc`. Where there is none, nothing is told.

use super::table::{self, stem};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;
use std::fs;
use weft_engine::telemetry::{Family, Kind};

/// What Linux tells programs as ticks is in hundredths of a second, whatever its own tick is.
const TICKS_PER_S: f64 = 100.0;

#[derive(Debug)]
pub struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for (family, value) in readings().unwrap_or_default() {
            let kind = if family.kind == Kind::Counter { MetricType::Counter } else { MetricType::Gauge };
            let mut metric = encoder.encode_descriptor(stem(family), family.help, None, kind)?;
            match family.kind {
                Kind::Counter => metric.encode_counter::<NoLabelSet, f64, f64>(&value, None)?,
                _ => metric.encode_gauge(&value)?,
            }
        }
        Ok(())
    }
}

fn readings() -> Option<Vec<(&'static Family, f64)>> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold spaces; what follows it does not.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<f64>().ok());
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = |name: &str| value_of(&status, name).map(|kib| kib * 1024.0);
    let boot = fs::read_to_string("/proc/stat").ok()?;
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let open = fs::read_dir("/proc/self/fd").ok()?.count();
    let readings = [
        (&table::CPU, Some((field(14)? + field(15)?) / TICKS_PER_S)),
        (&table::RESIDENT, kib("VmRSS:")),
        (&table::VIRTUAL, kib("VmSize:")),
        (&table::OPEN_FDS, Some(open as f64)),
        (&table::MAX_FDS, value_of(&limits, "Max open files")),
        (&table::THREADS, value_of(&status, "Threads:")),
        (&table::PROCESS_START, value_of(&boot, "btime").map(|boot| boot + field(22).unwrap_or(0.0) / TICKS_PER_S)),
    ];
    Some(readings.into_iter().filter_map(|(family, value)| Some((family, value?))).collect())
}

/// The first number behind a name at the beginning of a line.
fn value_of(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}
