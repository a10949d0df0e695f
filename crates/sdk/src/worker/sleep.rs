//! Sleeping. A short sleep is waited for under the lease; a longer one hands the execution back, and the handler begins
//! again from the top when it is over.

use super::ctx::Ctx;
use super::failure::Failure;
use super::limits::DELAY_MAX;
use super::step::read;
use crate::client::ms;
use crate::payload;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};
use tokio::time::sleep;
use weft_api::work::{DelayItem, NewStep};
use weft_api::{Args, Moment, op};

/// What is recorded of a sleep before it begins.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Slept {
    /// It ends at this time, in milliseconds since 1970.
    Until(u64),
    /// Recorded in the commit that handed the execution back. Who sees this has been claimed again, so that it is over,
    /// whatever the clocks of two workers say.
    Delayed(u64),
}

impl Ctx {
    /// Waits for `time`, over all attempts. Longer ones than half the lease answer a pause: let it out of the handler.
    pub async fn sleep(&self, name: &str, time: Duration) -> Result<(), Failure> {
        let delay = DelayItem { delay_ms: Some(ms(time.min(DELAY_MAX))), ..DelayItem::default() };
        self.sleep_or_delay(name, time, delay).await
    }

    /// Waits until `time`, over all attempts. A longer sleep ends when the server's clock says so, whatever the clock here
    /// does meanwhile.
    pub async fn sleep_until(&self, name: &str, time: SystemTime) -> Result<(), Failure> {
        let now = self.client().world().now_ms();
        let until = ms(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        let at = until.min(now.saturating_add(ms(DELAY_MAX)));
        let delay = DelayItem { until_at: Some(Moment(at)), ..DelayItem::default() };
        self.sleep_or_delay(name, Duration::from_millis(until.saturating_sub(now)), delay).await
    }

    async fn sleep_or_delay(&self, name: &str, time: Duration, delay: DelayItem) -> Result<(), Failure> {
        let (name, found) = self.remembered(name).await?;
        let now = self.client().world().now_ms();
        let left = match found {
            None if time > self.lease() / 2 => return Err(self.delay_until(name, ms(time), delay).await),
            None => {
                let until = Slept::Until(now.saturating_add(ms(time)));
                self.record(&name, payload::json(&until)?).await?;
                time
            }
            Some(found) => match read(&found, &name)? {
                Slept::Delayed(_) => return Ok(()),
                // The clock of another worker may be off, but nobody asked for more than `time`.
                Slept::Until(until) => Duration::from_millis(until.saturating_sub(now)).min(time),
            },
        };
        tokio::select! {
            biased;
            told = self.token().raised() => Err(Ctx::interrupted(&told)),
            () = sleep(left) => Ok(()),
        }
    }

    /// Hands the execution back until the time that `delay` has.
    async fn delay_until(&self, name: String, time_ms: u64, delay: DelayItem) -> Failure {
        let value = match payload::json(&Slept::Delayed(time_ms)) {
            Ok(value) => value,
            Err(error) => return Failure::from(error),
        };
        let claimed = self.claimed();
        let body = DelayItem {
            execution: claimed.execution.clone(),
            lease: Some(claimed.lease.id.clone()),
            epoch: Some(claimed.lease.epoch),
            checkpoint: self.riders().checkpoint.clone(),
            steps: vec![NewStep { name, value }],
            ..delay
        };
        match self.fenced::<op::Delay>(Args { body, ..Args::default() }).await {
            Ok(_) => self.paused(),
            Err(failure) => failure,
        }
    }
}
