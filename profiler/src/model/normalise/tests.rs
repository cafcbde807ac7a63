//! What must not survive, and what must.

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
    check("SELECT 1, 1.5, .5, 1e10, 1.5e-3, 0x1F, 0b101, 0o17, 1_000", "SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?");
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
    check("select c1, \"Col 2\" from sbtest10 where id=$1", "select c1, \"Col 2\" from sbtest10 where id=$1");
}

#[test]
fn lists_collapse_whatever_their_length() {
    check("SELECT * FROM t WHERE a IN (1)", "SELECT * FROM t WHERE a IN (?, …)");
    check("SELECT * FROM t WHERE a in ( 1,2 , 3 ) AND b = 4", "SELECT * FROM t WHERE a in (?, …) AND b = ?");
    check("SELECT * FROM t WHERE a IN ($1,$2)", "SELECT * FROM t WHERE a IN ($1, …)");
    check("SELECT * FROM t WHERE (a, b) IN ((1, 2), (3, 4))", "SELECT * FROM t WHERE (a, b) IN ((?, ?), …)");
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
