//! Short ids: the end of an id, as long as it takes to tell it from those beside it.

/// Letters of a short id that stands alone.
const LETTERS: usize = 6;

/// `…3c9e01`. Can be given to every command in place of the id.
pub fn short(id: &str) -> String {
    end(id, LETTERS)
}

/// Short forms that differ wherever the ids do.
pub fn short_all<'a>(ids: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let ids: Vec<&str> = ids.into_iter().collect();
    let longest = ids.iter().map(|id| id.len()).max().unwrap_or(0);
    let distinct = |letters: usize| {
        let mut ends: Vec<&str> = ids.iter().map(|id| tail(id, letters)).collect();
        let mut whole = ids.clone();
        ends.sort_unstable();
        ends.dedup();
        whole.sort_unstable();
        whole.dedup();
        ends.len() == whole.len()
    };
    let letters = (LETTERS..=longest).find(|letters| distinct(*letters)).unwrap_or(longest.max(LETTERS));
    ids.iter().map(|id| end(id, letters)).collect()
}

fn end(id: &str, letters: usize) -> String {
    match tail(id, letters) {
        whole if whole.len() == id.len() => id.to_owned(),
        tail => format!("…{tail}"),
    }
}

fn tail(id: &str, letters: usize) -> &str {
    id.len().checked_sub(letters).and_then(|at| id.get(at..)).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shown_by_its_end() {
        assert_eq!(short("x_7_0192f3c1-6b1e-7c55-9a40-5d2f6d3c9e01"), "…3c9e01");
        assert_eq!(short("x_7"), "x_7");
    }

    #[test]
    fn ids_beside_each_other_are_as_long_as_they_need_to_be() {
        assert_eq!(short_all(["aa-123456", "bb-923456", "bb-123457"]), ["…123456", "…923456", "…123457"]);
        assert_eq!(short_all(["xa-0123456", "xb-9123456"]), ["…0123456", "…9123456"]);
        assert_eq!(short_all(["same-id-123456", "same-id-123456"]), ["…123456", "…123456"]);
        assert!(short_all([]).is_empty());
    }
}
