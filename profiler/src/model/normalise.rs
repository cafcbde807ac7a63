//! SQL text without its constants, so that statements group and no customer's data leaves the host.
//!
//! Literals become `?`; lists of values in `IN (…)` and `ARRAY[…]` and the rows of `VALUES` collapse to their first
//! element; comments go. A text the tokenizer cannot finish (the server cuts texts at `track_activity_query_size`,
//! so a quote may never close) is kept up to the last token that was surely whole, and ends in `…`.

use std::{collections::HashMap, sync::Arc};

use sqlparser::{
    dialect::PostgreSqlDialect,
    tokenizer::{Token, TokenWithSpan, Tokenizer},
};

/// Raw texts remembered with their normal form; beyond it, the cache starts anew.
const CACHED_TEXTS: usize = 4096;

/// Normalises statement texts as the server shows them, remembering what it has seen.
pub struct Normaliser {
    show_literals: bool,
    cache: HashMap<Box<[u8]>, Arc<str>>,
}

impl Normaliser {
    /// With `show_literals`, texts are left as they are.
    pub fn new(show_literals: bool) -> Self {
        Normaliser { show_literals, cache: HashMap::new() }
    }

    /// The normal form of a text, which may be cut inside a character.
    pub fn normalise(&mut self, raw: &[u8]) -> Arc<str> {
        if let Some(known) = self.cache.get(raw) {
            return Arc::clone(known);
        }
        let text = String::from_utf8_lossy(raw);
        let text = text.trim_end_matches(char::REPLACEMENT_CHARACTER).trim();
        let normal: Arc<str> = if self.show_literals { text.into() } else { normalise(text).into() };
        if self.cache.len() >= CACHED_TEXTS {
            self.cache.clear();
        }
        self.cache.insert(raw.into(), Arc::clone(&normal));
        normal
    }
}

/// The normal form of a statement.
pub fn normalise(text: &str) -> String {
    let mut tokens = Vec::new();
    let outcome = Tokenizer::new(&PostgreSqlDialect {}, text)
        .with_unescape(false)
        .tokenize_with_location_into_buf(&mut tokens);
    let (mut pieces, whole) = pieces_of(&tokens);
    collapse_lists(&mut pieces);
    while pieces.last().is_some_and(|piece| piece.text == ";") {
        pieces.pop();
    }
    let mut out = render(&pieces);
    if outcome.is_err() || !whole {
        out.push_str(if out.is_empty() { "…" } else { " …" });
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Literal,
    Placeholder,
    Word,
    Other,
}

#[derive(Clone)]
struct Piece {
    text: String,
    kind: Kind,
    space_before: bool,
}

impl Piece {
    fn is(&self, text: &str) -> bool {
        self.kind == Kind::Other && self.text == text
    }

    fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }
}

/// Turns tokens into pieces of text without literals; false if the rest cannot be trusted and was dropped.
fn pieces_of(tokens: &[TokenWithSpan]) -> (Vec<Piece>, bool) {
    let mut pieces: Vec<Piece> = Vec::with_capacity(tokens.len());
    let mut space_before = false;
    let mut after_number = false;
    for TokenWithSpan { token, .. } in tokens {
        let (kind, text) = match token {
            Token::EOF => break,
            // Comments are whitespace, too.
            Token::Whitespace(_) => {
                space_before = true;
                continue;
            }
            Token::Number(..) => (Kind::Literal, "?".to_owned()),
            Token::Word(word) if word.quote_style.is_none() => (Kind::Word, word.value.clone()),
            Token::Word(_) => (Kind::Word, token.to_string()),
            Token::Placeholder(name) => (Kind::Placeholder, name.clone()),
            Token::SingleQuotedString(value) if value.ends_with('\\') && !follows_escape(&pieces) => {
                // With standard_conforming_strings off this quote does not close here: what follows may be data.
                push_literal(&mut pieces, space_before);
                return (pieces, false);
            }
            // Its end and what follows cannot be told apart for certain.
            Token::CopyData { .. } => return (pieces, false),
            _ if is_string(token) => (Kind::Literal, "?".to_owned()),
            _ => (Kind::Other, token.to_string()),
        };
        // `0b101`, `1_000` or `12abc` may reach us as a number and what sticks to it: one literal.
        let is_number = matches!(token, Token::Number(..));
        let sticks = !space_before && after_number;
        if sticks && (is_number || kind == Kind::Word) {
            continue;
        }
        after_number = is_number;
        match kind {
            Kind::Literal => {
                if is_number {
                    drop_sign(&mut pieces, &mut space_before);
                } else {
                    drop_prefix(&mut pieces, &mut space_before);
                }
                push_literal(&mut pieces, space_before);
            }
            _ => pieces.push(Piece { text, kind, space_before }),
        }
        space_before = false;
    }
    (pieces, true)
}

fn is_string(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::TripleSingleQuotedString(_)
            | Token::TripleDoubleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::DoubleQuotedByteStringLiteral(_)
            | Token::TripleSingleQuotedByteStringLiteral(_)
            | Token::TripleDoubleQuotedByteStringLiteral(_)
            | Token::SingleQuotedRawStringLiteral(_)
            | Token::DoubleQuotedRawStringLiteral(_)
            | Token::TripleSingleQuotedRawStringLiteral(_)
            | Token::TripleDoubleQuotedRawStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::QuoteDelimitedStringLiteral(_)
            | Token::NationalQuoteDelimitedStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
    )
}

/// Adjacent strings are one literal in SQL.
fn push_literal(pieces: &mut Vec<Piece>, space_before: bool) {
    if pieces.last().is_none_or(|last| last.kind != Kind::Literal) {
        pieces.push(Piece { text: "?".to_owned(), kind: Kind::Literal, space_before });
    }
}

/// `LIKE … ESCAPE '\'` is the one common string that ends in a backslash.
fn follows_escape(pieces: &[Piece]) -> bool {
    pieces.last().is_some_and(|last| last.is_word("escape"))
}

/// A sign with no operand before it belongs to the number after it.
fn drop_sign(pieces: &mut Vec<Piece>, space_before: &mut bool) {
    let Some(sign) = pieces.last() else { return };
    if !(sign.is("-") || sign.is("+")) {
        return;
    }
    let before = pieces.len().checked_sub(2).and_then(|at| pieces.get(at));
    if before.is_none_or(|before| !is_operand(before)) {
        *space_before = sign.space_before;
        pieces.pop();
    }
}

fn is_operand(piece: &Piece) -> bool {
    const BEFORE_A_VALUE: &[&str] = &[
        "select",
        "where",
        "and",
        "or",
        "not",
        "in",
        "between",
        "like",
        "set",
        "values",
        "limit",
        "offset",
        "then",
        "else",
        "when",
        "case",
        "returning",
        "by",
        "on",
        "default",
        "having",
        "distinct",
        "all",
        "return",
        "is",
    ];
    match piece.kind {
        Kind::Literal | Kind::Placeholder => true,
        Kind::Word => !BEFORE_A_VALUE.iter().any(|word| piece.is_word(word)),
        Kind::Other => piece.text == ")" || piece.text == "]",
    }
}

/// `b'101'` may reach us as a word and a string.
fn drop_prefix(pieces: &mut Vec<Piece>, space_before: &mut bool) {
    if *space_before {
        return;
    }
    if let Some(prefix) = pieces.last()
        && ["b", "e", "n", "x"].iter().any(|letter| prefix.is_word(letter))
    {
        *space_before = prefix.space_before;
        pieces.pop();
    }
}

fn collapse_lists(pieces: &mut Vec<Piece>) {
    let mut at = 1;
    while at < pieces.len() {
        let (opener, before) = (&pieces[at], &pieces[at - 1]);
        if opener.is("(") && before.is_word("in") || opener.is("[") && before.is_word("array") {
            collapse_values(pieces, at);
        } else if opener.is("(") && before.is_word("values") {
            collapse_rows(pieces, at);
        }
        at += 1;
    }
}

/// Index of the piece that closes the bracket at `open`, or the end of a text that is cut before it.
fn closing(pieces: &[Piece], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, piece) in pieces.iter().enumerate().skip(open) {
        if piece.is("(") || piece.is("[") {
            depth += 1;
        } else if piece.is(")") || piece.is("]") {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at;
            }
        }
    }
    pieces.len()
}

/// `IN (?, ?, ?)` → `IN (?, …)`, whatever the number of values, if there is nothing but values.
fn collapse_values(pieces: &mut Vec<Piece>, open: usize) {
    let close = closing(pieces, open);
    let inside = &pieces[open + 1..close];
    let only_values = inside.iter().enumerate().all(|(at, piece)| match piece.kind {
        Kind::Literal | Kind::Placeholder => true,
        // The type of a cast.
        Kind::Word => at > 0 && inside[at - 1].is("::"),
        Kind::Other => ["(", ")", ",", "::", "[", "]"].contains(&piece.text.as_str()),
    });
    if inside.is_empty() || !only_values {
        return;
    }
    let mut depth = 0i32;
    let first_ends = inside.iter().position(|piece| {
        depth += i32::from(piece.is("(") || piece.is("[")) - i32::from(piece.is(")") || piece.is("]"));
        depth == 0 && piece.is(",")
    });
    let first_ends = open + 1 + first_ends.unwrap_or(inside.len());
    pieces.splice(first_ends..close, ellipsis());
}

/// `VALUES (…), (…), (…)` → `VALUES (…), …`.
fn collapse_rows(pieces: &mut Vec<Piece>, open: usize) {
    let first_ends = (closing(pieces, open) + 1).min(pieces.len());
    let mut end = first_ends;
    while pieces.get(end).is_some_and(|piece| piece.is(",")) {
        match pieces.get(end + 1) {
            Some(next) if next.is("(") => end = (closing(pieces, end + 1) + 1).min(pieces.len()),
            Some(_) => break,
            None => end += 1,
        }
    }
    if end > first_ends {
        pieces.splice(first_ends..end, ellipsis());
    }
}

fn ellipsis() -> [Piece; 2] {
    [",", "…"].map(|text| Piece { text: text.to_owned(), kind: Kind::Other, space_before: false })
}

fn render(pieces: &[Piece]) -> String {
    let mut out = String::new();
    let mut before: Option<&Piece> = None;
    for piece in pieces {
        let spaced = before.is_some_and(|before| {
            before.is(",")
                || piece.space_before && !before.is("(") && ![")", ",", ";"].contains(&piece.text.as_str())
        });
        if spaced {
            out.push(' ');
        }
        out.push_str(&piece.text);
        before = Some(piece);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, normal: &str) {
        assert_eq!(normalise(text), normal, "of {text}");
    }

    #[test]
    fn literals_of_every_kind_become_question_marks() {
        check(
            "SELECT abalance FROM pgbench_accounts WHERE aid = 4711;",
            "SELECT abalance FROM pgbench_accounts WHERE aid = ?",
        );
        check(
            "SELECT 'a', E'b\\'c', $$d$$, $x$e$x$, x'1F', B'01', U&'\\0041', N'f'",
            "SELECT ?, ?, ?, ?, ?, ?, ?, ?",
        );
        check(
            "SELECT 1, 1.5, .5, 1e10, 1.5e-3, 0x1F, 0b101, 0o17, 1_000",
            "SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?",
        );
        check("SELECT 'it''s', 'two' \n 'parts'", "SELECT ?, ?");
        check("select date '2024-01-01', '5'::int, data->>'key'", "select date ?, ?::int, data->>?");
        check("ALTER ROLE app PASSWORD 'secret'", "ALTER ROLE app PASSWORD ?");
    }

    #[test]
    fn a_sign_belongs_to_its_number_unless_it_subtracts() {
        check("UPDATE t SET a = a + -5 WHERE b > -1", "UPDATE t SET a = a + ? WHERE b > ?");
        check("SELECT -5, (-3), a - 5, a -5, f(x) - 1", "SELECT ?, (?), a - ?, a -?, f(x) - ?");
        check("SELECT a FROM t WHERE x BETWEEN -5 AND +7", "SELECT a FROM t WHERE x BETWEEN ? AND ?");
    }

    #[test]
    fn identifiers_parameters_and_case_stay() {
        check(
            "select c1, \"Col 2\" from sbtest10 where id=$1",
            "select c1, \"Col 2\" from sbtest10 where id=$1",
        );
    }

    #[test]
    fn lists_collapse_whatever_their_length() {
        check("SELECT * FROM t WHERE a IN (1)", "SELECT * FROM t WHERE a IN (?, …)");
        check(
            "SELECT * FROM t WHERE a in ( 1,2 , 3 ) AND b = 4",
            "SELECT * FROM t WHERE a in (?, …) AND b = ?",
        );
        check("SELECT * FROM t WHERE a IN ($1,$2)", "SELECT * FROM t WHERE a IN ($1, …)");
        check(
            "SELECT * FROM t WHERE (a, b) IN ((1, 2), (3, 4))",
            "SELECT * FROM t WHERE (a, b) IN ((?, ?), …)",
        );
        check("SELECT * FROM t WHERE a IN ('x'::text, 'y'::text)", "SELECT * FROM t WHERE a IN (?::text, …)");
        check(
            "SELECT * FROM t WHERE a IN (SELECT b FROM u WHERE c = 1)",
            "SELECT * FROM t WHERE a IN (SELECT b FROM u WHERE c = ?)",
        );
        check("SELECT ARRAY[1, 2, 3]", "SELECT ARRAY[?, …]");
        check(
            "INSERT INTO t (a, b) VALUES (1, now()), (2, now())  ,(3, DEFAULT) RETURNING a",
            "INSERT INTO t (a, b) VALUES (?, now()), … RETURNING a",
        );
        check(
            "INSERT INTO h (tid, mtime) VALUES (1, CURRENT_TIMESTAMP);",
            "INSERT INTO h (tid, mtime) VALUES (?, CURRENT_TIMESTAMP)",
        );
    }

    #[test]
    fn comments_and_layout_do_not_matter() {
        check("SELECT /* user=alice */ a,b\n\tFROM   t -- 42\n WHERE c=1 ; ", "SELECT a, b FROM t WHERE c=?");
        check("BEGIN; UPDATE t SET a = 1; END;", "BEGIN; UPDATE t SET a = ?; END");
        check("", "");
    }

    #[test]
    fn a_text_cut_short_shows_nothing_of_the_cut_literal() {
        check("SELECT * FROM t WHERE name = 'Jane Do", "SELECT * FROM t WHERE name = …");
        check("SELECT * FROM t WHERE name = E'Jane\\'s", "SELECT * FROM t WHERE name = …");
        check("SELECT $$secret text", "SELECT …");
        check("SELECT $tag$secret $tag", "SELECT …");
        check("SELECT 1 /* half a comm", "SELECT ? …");
        check("SELECT * FROM t WHERE a IN (1, 2, 3", "SELECT * FROM t WHERE a IN (?, …");
        check("INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3,", "INSERT INTO t VALUES (?, ?), …");
        check("SELECT \"Half a na", "SELECT …");
    }

    #[test]
    fn an_ambiguous_backslash_ends_the_text() {
        check("SELECT 'it\\'s secret', 'x'", "SELECT ? …");
        check("SELECT a LIKE 'x!%' ESCAPE '\\' FROM t", "SELECT a LIKE ? ESCAPE ? FROM t");
    }

    #[test]
    fn copy_data_never_shows() {
        assert!(!normalise("COPY t FROM STDIN;\nsecret\t12345\n\\.\n").contains("12345"));
        assert!(!normalise("COPY t FROM STDIN;\nsecret\t12345\n\\.\n").contains("secret"));
    }

    #[test]
    fn a_text_cut_inside_a_character_is_read() {
        let mut normaliser = Normaliser::new(false);
        assert_eq!(&*normaliser.normalise(b"SELECT 1 AS na\xc3"), "SELECT ? AS na");
        assert_eq!(&*Normaliser::new(true).normalise(b" SELECT 'x' "), "SELECT 'x'");
    }

    /// A literal in one of PostgreSQL's notations; every one holds the mark `zq` or the digits `987`.
    fn literal() -> impl Strategy<Value = String> {
        let inner = "[a-z ,;()\"$-]{0,8}zq[0-9a-z /*-]{0,8}";
        prop_oneof![
            inner.prop_map(|text| format!("'{text}'")),
            inner.prop_map(|text| format!("'{text}''{text}'")),
            inner.prop_map(|text| format!("E'{text}\\'{text}'")),
            inner.prop_map(|text| format!("N'{text}'")),
            inner.prop_map(|text| format!("U&'{text}'")),
            inner.prop_map(|text| format!("$${}$$", text.replace('$', ""))),
            inner.prop_map(|text| format!("$t1${}$t1$", text.replace('$', ""))),
            "987[0-9]{0,12}",
            "-987[0-9]{0,3}\\.[0-9]{1,5}",
            "987[0-9]{0,3}e-?987",
            "\\.987[0-9]{0,3}",
            "987_[0-9]{1,5}",
            "0x987[0-9a-f]{0,6}",
            "0b1{3}987",
            "x'987[0-9A-F]{0,6}'",
            "B'987'",
        ]
    }

    fn statement(before: &str, literals: &[String]) -> String {
        format!(
            "{before}SELECT col, {} FROM tab WHERE a IN ({}) AND f({}, b) = {}",
            literals[0],
            literals.join(","),
            literals.join(", "),
            literals[literals.len() - 1],
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn nothing_of_a_literal_survives(literals in prop::collection::vec(literal(), 1..5), cut in 0usize..400) {
            let text = statement("/* 987 zq */ ", &literals);
            for text in [text.as_str(), &text[..cut.min(text.len())]] {
                let normal = normalise(text);
                prop_assert!(!normal.contains("zq") && !normal.contains("987"), "{} -> {}", text, normal);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            Normaliser::new(false).normalise(&bytes);
        }

        #[test]
        fn no_text_of_sql_marks_makes_it_panic(text in "[a-z0-9'\"$\\\\/*();,. \n-]{0,80}") {
            normalise(&text);
        }
    }
}
