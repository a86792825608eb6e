//! The expression language of the derivative table: C++'s, as far as upstream's formulas use it.

use crate::{Error, Result};

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
    Name(String),
    /// `{a, b}`
    Braces(Vec<Expr>),
    Unary(char, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `a ? b : c`
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `f(a, b)`
    Call(String, Vec<Expr>),
    /// `x.f(a, b)`
    Method(Box<Expr>, String, Vec<Expr>),
    /// `x[i]`
    Index(Box<Expr>, Box<Expr>),
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Int(i64),
    Float(f64),
    Name(String),
    Str(String),
    Op(&'static str),
    End,
}

const OPERATORS: &[&str] = &[
    "&&", "||", "==", "!=", "<=", ">=", "(", ")", "{", "}", "[", "]", ",", ".", "?", ":", "+", "-", "*", "/",
    "<", ">", "!", "&", "|",
];

/// Binary operators by falling precedence.
const LEVELS: &[&[&str]] =
    &[&["||"], &["&&"], &["|"], &["&"], &["==", "!="], &["<", "<=", ">", ">="], &["+", "-"], &["*", "/"]];

fn tokens(text: &str) -> Result<Vec<Token>> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        let c = bytes[i] as char;
        let start = i;
        if c.is_whitespace() {
            i += 1;
        } else if c.is_ascii_digit() || (c == '.' && bytes.get(i + 1).is_some_and(u8::is_ascii_digit)) {
            while i < bytes.len()
                && (bytes[i].is_ascii_alphanumeric()
                    || bytes[i] == b'.'
                    || (matches!(bytes[i], b'-' | b'+') && matches!(bytes[i - 1], b'e' | b'E')))
            {
                i += 1;
            }
            let number = &text[start..i];
            out.push(match number.parse::<i64>() {
                Ok(v) => Token::Int(v),
                Err(_) => Token::Float(
                    number
                        .parse()
                        .map_err(|_| Error::runtime(format!("formula: bad number {number} in {text}")))?,
                ),
            });
        } else if c.is_ascii_alphabetic() || c == '_' {
            while i < bytes.len() && (bytes[i].is_ascii_alphanumeric() || bytes[i] == b'_') {
                i += 1;
            }
            out.push(Token::Name(text[start..i].to_string()));
        } else if c == '"' {
            let end = text[i + 1..]
                .find('"')
                .ok_or_else(|| Error::runtime(format!("formula: open string in {text}")))?;
            out.push(Token::Str(text[i + 1..i + 1 + end].to_string()));
            i += end + 2;
        } else if let Some(op) = OPERATORS.iter().find(|op| text[i..].starts_with(**op)) {
            out.push(Token::Op(op));
            i += op.len();
        } else {
            return Err(Error::runtime(format!("formula: cannot read {:?} in {text}", &text[i..])));
        }
    }
    out.push(Token::End);
    Ok(out)
}

struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    text: &'a str,
}

/// Parses a formula.
///
/// # Errors
/// A text outside the language; the table's test parses every formula.
pub fn parse(text: &str) -> Result<Expr> {
    let mut p = Parser { tokens: tokens(text)?, at: 0, text };
    let e = p.expression()?;
    match p.peek() {
        Token::End => Ok(e),
        other => Err(p.error(&format!("left over {other:?}"))),
    }
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at]
    }
    fn next(&mut self) -> Token {
        let t = self.tokens[self.at].clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        t
    }
    fn eat(&mut self, op: &str) -> bool {
        let found = matches!(self.peek(), Token::Op(o) if *o == op);
        if found {
            self.at += 1;
        }
        found
    }
    fn expect(&mut self, op: &str) -> Result<()> {
        if self.eat(op) {
            Ok(())
        } else {
            Err(self.error(&format!("expected {op}, found {:?}", self.peek())))
        }
    }
    fn error(&self, what: &str) -> Error {
        Error::runtime(format!("formula: {what} in {}", self.text))
    }

    fn expression(&mut self) -> Result<Expr> {
        let condition = self.binary(0)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        let yes = self.expression()?;
        self.expect(":")?;
        let no = self.expression()?;
        Ok(Expr::Choice(Box::new(condition), Box::new(yes), Box::new(no)))
    }

    fn binary(&mut self, level: usize) -> Result<Expr> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        loop {
            let op = match self.peek() {
                Token::Op(o) if operators.contains(o) => *o,
                _ => return Ok(left),
            };
            self.at += 1;
            let right = self.binary(level + 1)?;
            left = Expr::Binary(op, Box::new(left), Box::new(right));
        }
    }

    fn unary(&mut self) -> Result<Expr> {
        for op in ["-", "!"] {
            if self.eat(op) {
                let sign = if op == "-" { '-' } else { '!' };
                return Ok(Expr::Unary(sign, Box::new(self.unary()?)));
            }
        }
        self.postfix()
    }

    fn list(&mut self, close: &str) -> Result<Vec<Expr>> {
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(self.expression()?);
            if self.eat(close) {
                return Ok(items);
            }
            self.expect(",")?;
        }
    }

    fn postfix(&mut self) -> Result<Expr> {
        let mut e = self.primary()?;
        loop {
            if self.eat(".") {
                let Token::Name(name) = self.next() else {
                    return Err(self.error("expected a method's name"));
                };
                self.expect("(")?;
                e = Expr::Method(Box::new(e), name, self.list(")")?);
            } else if self.eat("[") {
                let i = self.expression()?;
                self.expect("]")?;
                e = Expr::Index(Box::new(e), Box::new(i));
            } else {
                return Ok(e);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr> {
        match self.next() {
            Token::Int(v) => Ok(Expr::Int(v)),
            Token::Float(v) => Ok(Expr::Float(v)),
            Token::Str(s) => Ok(Expr::Str(s)),
            Token::Name(n) if n == "true" || n == "false" => Ok(Expr::Bool(n == "true")),
            Token::Name(n) => {
                if self.eat("(") {
                    Ok(Expr::Call(n, self.list(")")?))
                } else {
                    Ok(Expr::Name(n))
                }
            }
            Token::Op("(") => {
                let e = self.expression()?;
                self.expect(")")?;
                Ok(e)
            }
            Token::Op("{") => Ok(Expr::Braces(self.list("}")?)),
            other => Err(self.error(&format!("unexpected {other:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_is_that_of_c() {
        let n = |s: &str| Box::new(Expr::Name(s.into()));
        assert_eq!(
            parse("a - -b * c").unwrap(),
            Expr::Binary(
                "-",
                n("a"),
                Box::new(Expr::Binary("*", Box::new(Expr::Unary('-', n("b"))), n("c")))
            )
        );
        assert_eq!(
            parse("x.defined() ? f(x, {1, 2.5}) : y[0]").unwrap(),
            Expr::Choice(
                Box::new(Expr::Method(n("x"), "defined".into(), vec![])),
                Box::new(Expr::Call(
                    "f".into(),
                    vec![Expr::Name("x".into()), Expr::Braces(vec![Expr::Int(1), Expr::Float(2.5)])]
                )),
                Box::new(Expr::Index(n("y"), Box::new(Expr::Int(0))))
            )
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["a +", "f(a", "a $ b", "a b", "\"open"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
