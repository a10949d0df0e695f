//! Lists and batches: how many things travel in one request or reply.

use crate::problem::Problem;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// One page of a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next page begins; absent exactly at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Which page of a list.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// 1 to 1000, 50 unless given
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// As the page before gave it
    pub cursor: Option<String>,
}

/// Many calls in one. Items are independent and are answered in order.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Batch<T> {
    #[schema(min_items = 1, max_items = 1000)]
    pub items: Vec<T>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Results<T> {
    #[schema(inline)]
    pub results: Vec<Item<T>>,
}

/// The answer to one item of a batch.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Item<T> {
    Ok(T),
    Error(Box<Problem>),
}

impl<T> Item<T> {
    pub fn of(answer: Result<T, Problem>) -> Self {
        match answer {
            Ok(value) => Item::Ok(value),
            Err(problem) => Item::Error(Box::new(problem)),
        }
    }

    pub fn into_result(self) -> Result<T, Problem> {
        match self {
            Item::Ok(value) => Ok(value),
            Item::Error(problem) => Err(*problem),
        }
    }
}
