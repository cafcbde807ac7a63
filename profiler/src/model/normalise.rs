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

mod lists;

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
    lists::collapse(&mut pieces);
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
        match kind {
            Kind::Literal => {
                if matches!(token, Token::Number(..)) {
                    drop_sign(&mut pieces, &mut space_before);
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
mod tests;
