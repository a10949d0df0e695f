//! Deletes a store: for tests and benchmarks. Only keys of this prefix go, a bounded number per step.

use crate::check;
use crate::error::OpenError;
use crate::info::ask;
use crate::keys::Keys;
use crate::link::Dial;
use crate::options::{Address, Options};
use redis::Value;

const STEP: usize = 1000;

/// Deletes every key of the store. The library stays: other stores on the server use it.
pub async fn wipe(options: &Options) -> Result<(), OpenError> {
    let survey = check::survey(options).await?;
    for server in &survey.servers {
        let failed = |error: redis::RedisError| failed(&server.address, error);
        let mut connection = Dial::new(server.address.clone(), options).connect().await.map_err(failed)?;
        let pattern = Keys::new(&options.prefix).pattern();
        let mut cursor = b"0".to_vec();
        loop {
            let mut step = redis::cmd("SCAN");
            step.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(STEP);
            let reply = ask(&mut connection, &step).await.map_err(failed)?;
            let Value::Array(fields) = reply else { break };
            let [Value::BulkString(next), Value::Array(keys)] = &fields[..] else { break };
            // One by one: keys of different slots do not fit into one command.
            let mut all = redis::pipe();
            for key in keys {
                if let Value::BulkString(key) = key {
                    all.cmd("UNLINK").arg(key).ignore();
                }
            }
            if !all.is_empty() {
                all.exec_async(&mut connection).await.map_err(failed)?;
            }
            cursor.clone_from(next);
            if cursor == b"0" {
                break;
            }
        }
    }
    Ok(())
}

fn failed(address: &Address, error: redis::RedisError) -> OpenError {
    OpenError::Server { address: address.clone(), why: error.to_string() }
}
