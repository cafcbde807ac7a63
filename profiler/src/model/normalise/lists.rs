//! Lists of values cut down to their first element, so that a statement is one whatever the length of its lists.

use super::{Kind, Piece};

/// Collapses every list of values in place.
pub(super) fn collapse(pieces: &mut Vec<Piece>) {
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
