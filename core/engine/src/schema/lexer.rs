//! Cuts schema text into tokens.

use super::parser::ParseError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ident,
    Number,
    /// Quotes included.
    StringLiteral,
    True,
    False,
    None,
    NoneType,
    Arrow,
    Dots,
    /// A word that schemas may not use as a name.
    Keyword,
    Punctuation(char),
    /// A line break outside parentheses.
    Indent,
    End,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    pub start: usize,
}

impl Token<'_> {
    /// What upstream's messages call a token of this kind.
    pub fn describe(&self) -> &str {
        match self.kind {
            Kind::Keyword | Kind::Punctuation(_) => self.text,
            kind => kind.describe(),
        }
    }
}

impl Kind {
    pub fn describe(&self) -> &'static str {
        match self {
            Kind::Ident => "ident",
            Kind::Number => "number",
            Kind::StringLiteral => "string_literal",
            Kind::True => "True",
            Kind::False => "False",
            Kind::None => "None",
            Kind::NoneType => "NoneType",
            Kind::Arrow => "arrow",
            Kind::Dots => "dots",
            Kind::Indent => "indent",
            Kind::End => "eof",
            Kind::Keyword => "keyword",
            Kind::Punctuation(c) => match c {
                '(' => "(",
                ')' => ")",
                '[' => "[",
                ']' => "]",
                ',' => ",",
                ':' => ":",
                '.' => ".",
                '=' => "=",
                _ => "punctuation",
            },
        }
    }
}

/// Python's words that TorchScript reserves.
const KEYWORDS: &[&str] = &[
    "and", "as", "assert", "break", "class", "continue", "def", "del", "elif", "else", "for", "global", "if",
    "import", "in", "is", "not", "or", "pass", "raise", "return", "while", "with",
];

pub(super) fn tokenize(source: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::with_capacity(source.len() / 4 + 1);
    let mut depth = 0usize;
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        let kind = match byte {
            b' ' | b'\t' | b'\r' => {
                at += 1;
                continue;
            }
            b'\\' if bytes.get(at + 1) == Some(&b'\n') => {
                at += 2;
                continue;
            }
            b'#' => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    at += 1;
                }
                continue;
            }
            b'\n' => {
                while at < bytes.len() && bytes[at].is_ascii_whitespace() {
                    at += 1;
                }
                // Breaks at either end and inside parentheses mean nothing.
                if depth > 0 || tokens.is_empty() || at == bytes.len() {
                    continue;
                }
                Kind::Indent
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                while at < bytes.len() && (bytes[at] == b'_' || bytes[at].is_ascii_alphanumeric()) {
                    at += 1;
                }
                match &source[start..at] {
                    "True" => Kind::True,
                    "False" => Kind::False,
                    "None" => Kind::None,
                    "NoneType" => Kind::NoneType,
                    word if KEYWORDS.contains(&word) => Kind::Keyword,
                    _ => Kind::Ident,
                }
            }
            b'0'..=b'9' | b'.' if byte != b'.' || bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                at = number_end(bytes, at);
                Kind::Number
            }
            b'"' | b'\'' => {
                at += 1;
                while at < bytes.len() && bytes[at] != byte && bytes[at] != b'\n' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                if bytes.get(at) != Some(&byte) {
                    return Err(ParseError::new(
                        source,
                        start,
                        1,
                        "expected a valid token but found an open string",
                    ));
                }
                at += 1;
                Kind::StringLiteral
            }
            b'-' if bytes.get(at + 1) == Some(&b'>') => {
                at += 2;
                Kind::Arrow
            }
            b'.' if source[at..].starts_with("...") => {
                at += 3;
                Kind::Dots
            }
            b'(' | b'[' => {
                depth += 1;
                at += 1;
                Kind::Punctuation(byte as char)
            }
            b')' | b']' => {
                depth = depth.saturating_sub(1);
                at += 1;
                Kind::Punctuation(byte as char)
            }
            b',' | b':' | b'.' | b'=' | b'*' | b'!' | b'?' | b'|' | b'-' | b'+' => {
                at += 1;
                Kind::Punctuation(byte as char)
            }
            _ => {
                let c = source[at..].chars().next().expect("not at the end");
                return Err(ParseError::new(
                    source,
                    start,
                    c.len_utf8(),
                    &format!("expected a valid token but found '{c}' here"),
                ));
            }
        };
        tokens.push(Token { kind, text: &source[start..at], start });
    }
    tokens.push(Token { kind: Kind::End, text: "", start: source.len() });
    Ok(tokens)
}

/// The end of a decimal number with optional fraction, exponent and imaginary unit.
fn number_end(bytes: &[u8], mut at: usize) -> usize {
    let digits = |mut at: usize| {
        while at < bytes.len() && bytes[at].is_ascii_digit() {
            at += 1;
        }
        at
    };
    at = digits(at);
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
        let end = digits(at + 1 + sign);
        if end > at + 1 + sign {
            at = end;
        }
    }
    if bytes.get(at) == Some(&b'j') { at + 1 } else { at }
}
