//! Licence expressions as crates write them: `MIT OR Apache-2.0`, `(A OR B) AND C`, `A WITH exception`, and the old
//! `MIT/Apache-2.0`. Owns the grammar; which licences are good is the caller's to say.

/// Whether the terms can be met with good licences alone: one side of an OR is enough, an AND needs both. An exception
/// only adds permissions, so WITH is as good as the licence before it. The error says what cannot be read.
pub fn permits(expression: &str, good: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut terms = Terms { words: spaced.split_whitespace().collect(), good };
    terms.words.reverse();
    let permitted = terms.either()?;
    match terms.words.pop() {
        None => Ok(permitted),
        Some(word) => Err(format!("`{word}` is left over in `{expression}`")),
    }
}

/// The words not yet read, the next one last.
struct Terms<'a> {
    words: Vec<&'a str>,
    good: &'a dyn Fn(&str) -> bool,
}

impl Terms<'_> {
    fn either(&mut self) -> Result<bool, String> {
        let mut permitted = self.both()?;
        while self.take("OR") {
            permitted |= self.both()?;
        }
        Ok(permitted)
    }

    fn both(&mut self) -> Result<bool, String> {
        let mut permitted = self.one()?;
        while self.take("AND") {
            permitted &= self.one()?;
        }
        Ok(permitted)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let permitted = self.either()?;
            return if self.take(")") { Ok(permitted) } else { Err("`)` is missing".to_owned()) };
        }
        let licence = self.name()?;
        let permitted = (self.good)(licence.trim_end_matches('+'));
        if self.take("WITH") {
            self.name()?;
        }
        Ok(permitted)
    }

    fn take(&mut self, word: &str) -> bool {
        let next = self.words.last().is_some_and(|next| next.eq_ignore_ascii_case(word));
        if next {
            self.words.pop();
        }
        next
    }

    fn name(&mut self) -> Result<String, String> {
        let reserved = |word: &str| ["OR", "AND", "WITH"].iter().any(|name| word.eq_ignore_ascii_case(name));
        let named =
            |word: &str| !reserved(word) && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.+:".contains(&b));
        match self.words.pop() {
            Some(word) if named(word) => Ok(word.to_owned()),
            Some(word) => Err(format!("`{word}` stands where a licence should")),
            None => Err("it ends where a licence should stand".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(expression: &str) -> Result<bool, String> {
        permits(expression, &|licence| ["MIT", "Apache-2.0", "Unicode-3.0"].contains(&licence))
    }

    #[test]
    fn expressions_are_judged_by_what_can_be_chosen() {
        for (expression, permitted) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("MIT OR GPL-3.0-only", true),
            ("GPL-3.0-only or MIT", true),
            ("MIT AND GPL-3.0-only", false),
            ("MIT/Apache-2.0", true),
            ("MIT / LGPL-2.1", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(MIT OR Apache-2.0) AND OpenSSL", false),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("GPL-2.0-only WITH Classpath-exception-2.0", false),
            ("Apache-2.0+", true),
            // AND binds more tightly than OR.
            ("MIT OR GPL-3.0-only AND OpenSSL", true),
            ("GPL-3.0-only AND MIT OR OpenSSL", false),
            ("((MIT))", true),
        ] {
            assert_eq!(judged(expression), Ok(permitted), "{expression}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_no_licence() {
        for expression in ["", "OR", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0", "MIT WITH", "MIT, Apache-2.0"] {
            assert!(judged(expression).is_err(), "{expression}");
        }
    }
}
