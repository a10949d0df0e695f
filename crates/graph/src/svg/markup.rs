//! Pieces of XML. Whatever comes from outside passes through `escape` here.

/// Text as it may stand between tags and in attributes. It is plain already, so no character in it is forbidden in XML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// Text that begins at a point of its baseline.
pub fn text(class: &str, x: i64, y: i64, text: &str) -> String {
    format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>\n", escape(text))
}

/// What is shown when a pointer rests on the element around it.
pub fn tooltip(text: &str) -> String {
    format!("<title>{}</title>", escape(text))
}

/// Everything in it moved to there; nothing if there is nothing in it.
pub fn group(x: i64, y: i64, inner: &str) -> String {
    if inner.is_empty() { String::new() } else { format!("<g transform=\"translate({x} {y})\">\n{inner}</g>\n") }
}
