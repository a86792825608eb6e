//! Compares with what upstream's parser and printer answered (`testdata/`, written by `vendor/generate/jit_schemas.py`).

use std::collections::HashMap;

use super::*;
use crate::generated;

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

/// Messages of upstream's C++ library, for which we have words of our own.
const OWN_MESSAGE: &[&str] = &["!stoll", "!stod"];

/// What an answer says; of a message the words, without the source and the mark below them.
fn words(answer: &str) -> &str {
    if !answer.starts_with('!') {
        return answer;
    }
    let end = answer.find(" here:\n").or_else(|| answer.rfind(":\n")).unwrap_or(answer.len());
    answer[1..end].trim()
}

#[test]
fn answers_as_upstream_does() {
    let mut wrong = Vec::new();
    for line in include_str!("testdata/cases.tsv").lines() {
        let (text, expected) = line.split_once('\t').unwrap();
        let (text, expected) = (unescape(text), unescape(expected));
        let answer = match parse_schema(&text) {
            Ok(schema) => schema.to_string(),
            Err(error) => format!("!{error}"),
        };
        let differs = if OWN_MESSAGE.contains(&expected.as_str()) {
            !answer.starts_with('!')
        } else {
            words(&answer) != words(&expected)
        };
        if differs {
            wrong.push(format!("{text}\n  upstream: {expected}\n  here:     {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn prints_every_operator_as_upstream_does() {
    let key = |text: &str| text[..text.find('(').unwrap()].to_string();
    let different: HashMap<_, _> =
        include_str!("testdata/printed.txt").lines().map(|line| (key(line), line)).collect();
    for op in generated::ops() {
        let printed = generated::schema(op.id).to_string();
        let as_written = format!("aten::{}", op.schema_text);
        let expected = different.get(&key(&as_written)).map_or(as_written.as_str(), |line| line);
        assert_eq!(printed, expected);
        let again = parse_schema(&printed).unwrap();
        assert_eq!(again.to_string().contains('|'), printed.contains('|'));
        if !printed.contains('|') {
            assert_eq!(&again, generated::schema(op.id));
        }
    }
    for extra in generated::extra_schemas() {
        if !extra.schema_text.contains('|') {
            assert_eq!(extra.schema().to_string(), extra.schema_text);
        }
    }
}

#[test]
fn arguments_carry_their_annotations() {
    let schema =
        parse_schema("a::f.o(Tensor(a!)[] x, int[2]? y=1, *, Tensor(b!) out) -> Tensor(a)[]").unwrap();
    assert_eq!((schema.namespace(), schema.base_name()), (Some("a"), "f"));
    assert_eq!(schema.qualified_name(), "a::f.o");
    let [x, y, out] = schema.arguments.as_slice() else { panic!() };
    let alias = x.alias.as_ref().unwrap();
    assert!(alias.before_set.is_empty() && alias.is_write);
    assert_eq!(alias.element.as_ref().unwrap().before_set, ["a"]);
    assert!(x.is_write() && !x.is_out() && out.is_out());
    assert_eq!((y.list_len, &y.default), (Some(2), &Some(Default::Int(1))));
    assert_eq!(y.ty.list_element(), Some(&Type::Int));
    assert!(schema.is_mutable() && !schema.is_view_op());
    assert_eq!(schema.argument_index("out"), Some(2));
}

#[test]
fn types_have_upstreams_names() {
    let schema = parse_schema(
        "f(SymInt[]? a, ScalarType b, Scalar c, (int, Tensor?) d, Dict(str, Future(t)) e, SymBool g) -> ()",
    )
    .unwrap();
    let types: Vec<_> = schema.arguments.iter().map(|a| &a.ty).collect();
    let annotations: Vec<_> = types.iter().map(|t| t.annotation()).collect();
    assert_eq!(
        annotations,
        [
            "Optional[List[int]]",
            "ScalarType",
            "number",
            "Tuple[int, Optional[Tensor]]",
            "Dict[str, Future[t]]",
            "bool"
        ]
    );
    assert_eq!(types[0].fake().to_string(), "int[]?");
    assert_eq!(types[1].fake(), Type::Int);
    let kinds: Vec<_> = types.iter().map(|t| t.kind_name()).collect();
    assert_eq!(
        kinds,
        ["OptionalType", "ScalarTypeType", "NumberType", "TupleType", "DictType", "SymBoolType"]
    );
}

#[test]
fn a_dispatched_schema_has_no_type_variables() {
    assert!(parse_schema("f(t x) -> t").is_ok());
    let error = parse_schema_strict("f(t x) -> t").unwrap_err();
    assert_eq!(error.position, 2);
    assert!(error.message.contains("unknown type specifier"));
    assert_eq!(parse_operator_name("aten::add.Tensor").unwrap(), ("aten::add".into(), "Tensor".into()));
    assert!(parse_operator_name("aten::add(").is_err());
}
