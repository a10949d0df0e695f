//! The metrics of the engine, read anew for every exposition.

use super::table::stem;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;
use weft_engine::Engine;
use weft_engine::telemetry::{Kind, Reading};

pub struct Readings(pub Engine);

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Readings")
    }
}

impl Collector for Readings {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for readings in self.0.metrics() {
            let family = readings.family;
            let mut metric = encoder.encode_descriptor(stem(family), family.help, None, kind(family.kind))?;
            for (values, reading) in &readings.samples {
                if values.is_empty() {
                    write(&mut metric, reading)?;
                    continue;
                }
                let labels: Vec<(&str, &str)> =
                    family.labels.iter().copied().zip(values.iter().map(|value| &**value)).collect();
                write(&mut metric.encode_family(&labels)?, reading)?;
            }
        }
        Ok(())
    }
}

fn write(encoder: &mut MetricEncoder<'_>, reading: &Reading) -> fmt::Result {
    match reading {
        Reading::Count(count) => encoder.encode_counter::<NoLabelSet, u64, f64>(count, None),
        Reading::Level(level) => encoder.encode_gauge(level),
        Reading::Spread { buckets, sum } => {
            let count = buckets.iter().map(|(_, count)| count).sum();
            encoder.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
        }
    }
}

fn kind(kind: Kind) -> MetricType {
    match kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
        Kind::Info => MetricType::Info,
    }
}
