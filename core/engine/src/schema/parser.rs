//! Reads schemas.

use std::error::Error;
use std::fmt;

use super::lexer::{Kind, Token, tokenize};
use super::{AliasInfo, Argument, Default, FunctionSchema, Type};

/// Why a text is no schema, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub message: String,
    /// Byte offset of the offending token.
    pub position: usize,
    length: usize,
    /// `None` where the fault is not at one place.
    source: Option<String>,
}

impl ParseError {
    pub(super) fn new(source: &str, position: usize, length: usize, message: &str) -> Self {
        ParseError { message: message.into(), position, length, source: Some(source.into()) }
    }
}

/// The message, the line, and a mark under the token: the layout of upstream's errors.
impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let Some(source) = &self.source else { return Ok(()) };
        write!(f, ":\n{source}")?;
        if self.length > 0 {
            let line_start = source[..self.position].rfind('\n').map_or(0, |at| at + 1);
            let column = source[line_start..self.position].chars().count();
            write!(f, "\n{}{} <--- HERE\n", " ".repeat(column), "~".repeat(self.length))?;
        }
        Ok(())
    }
}

impl Error for ParseError {}

type Result<T> = std::result::Result<T, ParseError>;

/// Reads a schema. A lower-case word that names no type is a type variable, as TorchScript has it.
pub fn parse_schema(text: &str) -> Result<FunctionSchema> {
    Parser::new(text, true)?.schema()
}

/// Reads a schema for a dispatched operator, where type variables are not allowed (`torch.library`).
pub fn parse_schema_strict(text: &str) -> Result<FunctionSchema> {
    Parser::new(text, false)?.schema()
}

/// Reads `ns::name.overload` and nothing more: the name and the overload name.
pub fn parse_operator_name(text: &str) -> Result<(String, String)> {
    let mut parser = Parser::new(text, false)?;
    let name = parser.operator_name()?;
    parser.end()?;
    Ok(name)
}

/// The integer upstream's schemas use for a dtype of this name.
pub fn scalar_type_code(name: &str) -> Option<i64> {
    Some(match name {
        "uint8" => 0,
        "int8" => 1,
        "int16" | "short" => 2,
        "int32" | "int" => 3,
        "int64" | "long" => 4,
        "float16" | "half" => 5,
        "float32" | "float" => 6,
        "float64" | "double" => 7,
        "complex32" | "chalf" => 8,
        "complex64" | "cfloat" | "complex" => 9,
        "complex128" | "cdouble" => 10,
        "bool" => 11,
        "qint8" => 12,
        "quint8" => 13,
        "qint32" => 14,
        "bfloat16" => 15,
        "quint4x2" => 16,
        "quint2x4" => 17,
        "bits1x8" => 18,
        "bits2x4" => 19,
        "bits4x2" => 20,
        "bits8" => 21,
        "bits16" => 22,
        "float8_e5m2" => 23,
        "float8_e4m3fn" => 24,
        "float8_e5m2fnuz" => 25,
        "float8_e4m3fnuz" => 26,
        "uint16" => 27,
        "uint32" => 28,
        "uint64" => 29,
        "uint1" => 30,
        "uint2" => 31,
        "uint3" => 32,
        "uint4" => 33,
        "uint5" => 34,
        "uint6" => 35,
        "uint7" => 36,
        "int1" => 37,
        "int2" => 38,
        "int3" => 39,
        "int4" => 40,
        "int5" => 41,
        "int6" => 42,
        "int7" => 43,
        "float8_e8m0fnu" => 44,
        "float4_e2m1fn_x2" => 45,
        _ => return None,
    })
}

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
    allow_variables: bool,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str, allow_variables: bool) -> Result<Self> {
        Ok(Parser { source, tokens: tokenize(source)?, at: 0, allow_variables })
    }

    fn current(&self) -> Token<'a> {
        self.tokens[self.at]
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.current();
        // The last token ends the text and is never passed.
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    fn is(&self, c: char) -> bool {
        self.current().kind == Kind::Punctuation(c)
    }

    fn next_if(&mut self, c: char) -> bool {
        let found = self.is(c);
        if found {
            self.next();
        }
        found
    }

    fn next_if_kind(&mut self, kind: Kind) -> bool {
        let found = self.current().kind == kind;
        if found {
            self.next();
        }
        found
    }

    fn error<T>(&self, token: Token<'_>, message: &str) -> Result<T> {
        Err(ParseError::new(self.source, token.start, token.text.chars().count(), message))
    }

    fn expect(&mut self, kind: Kind) -> Result<Token<'a>> {
        let token = self.current();
        if token.kind != kind {
            let message = format!("expected {} but found '{}' here", kind.describe(), token.describe());
            return self.error(token, &message);
        }
        Ok(self.next())
    }

    fn expect_char(&mut self, c: char) -> Result<()> {
        self.expect(Kind::Punctuation(c)).map(drop)
    }

    fn end(&mut self) -> Result<()> {
        self.expect(Kind::End).map(drop)
    }

    fn plain_error<T>(&self, message: String) -> Result<T> {
        Err(ParseError { message, position: 0, length: 0, source: None })
    }

    fn schema(&mut self) -> Result<FunctionSchema> {
        let (name, overload_name) = self.operator_name()?;
        if self.current().kind == Kind::End {
            return self
                .plain_error("Tried to parse a function schema but only the operator name was given".into());
        }
        if !self.is('(') {
            self.end()?;
        }
        let (arguments, is_vararg) = self.arguments()?;
        self.expect(Kind::Arrow)?;
        let (returns, is_varret) = self.returns()?;
        self.end()?;
        let mut seen_default = false;
        for argument in arguments.iter().filter(|a| !a.kwarg_only) {
            if seen_default && argument.default.is_none() {
                let parameter = &argument.name;
                return self.plain_error(format!(
                    "Non-default positional argument follows default argument. Parameter {parameter} in {}",
                    self.source
                ));
            }
            seen_default |= argument.default.is_some();
        }
        Ok(FunctionSchema { name, overload_name, arguments, returns, is_vararg, is_varret })
    }

    fn operator_name(&mut self) -> Result<(String, String)> {
        let mut name = self.expect(Kind::Ident)?.text.to_string();
        if self.is(':') && self.tokens[self.at + 1].kind == Kind::Punctuation(':') {
            self.next();
            self.next();
            name = format!("{name}::{}", self.expect(Kind::Ident)?.text);
        }
        if !self.next_if('.') {
            return Ok((name, String::new()));
        }
        let overload = self.expect(Kind::Ident)?.text;
        if overload == "default" || overload.starts_with("__") {
            return self.plain_error(format!("{overload} is not a legal overload name for aten operators"));
        }
        Ok((name, overload.into()))
    }

    fn arguments(&mut self) -> Result<(Vec<Argument>, bool)> {
        self.expect_char('(')?;
        let mut arguments: Vec<Argument> = Vec::new();
        let (mut kwarg_only, mut is_vararg) = (false, false);
        if self.next_if(')') {
            return Ok((arguments, false));
        }
        loop {
            let token = self.current();
            if is_vararg {
                return self.error(token, "... must be the last element of the argument list");
            }
            if self.next_if('*') {
                kwarg_only = true;
            } else if self.next_if_kind(Kind::Dots) {
                is_vararg = true;
            } else {
                arguments.push(self.argument(kwarg_only)?);
            }
            if !self.next_if(',') {
                break;
            }
        }
        self.expect_char(')')?;
        Ok((arguments, is_vararg))
    }

    fn argument(&mut self, kwarg_only: bool) -> Result<Argument> {
        let (ty, alias, list_len) = self.type_with_alias()?;
        let name = self.expect(Kind::Ident)?.text.to_string();
        let default = if self.next_if('=') { Some(self.default(&ty, list_len)?) } else { None };
        Ok(Argument { name, ty, list_len, default, kwarg_only, alias })
    }

    fn returns(&mut self) -> Result<(Vec<Argument>, bool)> {
        if self.next_if_kind(Kind::Dots) {
            return Ok((Vec::new(), true));
        }
        if !self.next_if('(') {
            return Ok((vec![self.returned()?], false));
        }
        let mut returns = Vec::new();
        let mut is_varret = false;
        if self.next_if(')') {
            return Ok((returns, false));
        }
        loop {
            if is_varret {
                return self.error(self.current(), "... must be the last element of the return list");
            }
            if self.next_if_kind(Kind::Dots) {
                is_varret = true;
            } else {
                returns.push(self.returned()?);
            }
            if !self.next_if(',') {
                break;
            }
        }
        self.expect_char(')')?;
        Ok((returns, is_varret))
    }

    fn returned(&mut self) -> Result<Argument> {
        let (ty, alias, list_len) = self.type_with_alias()?;
        let name = match self.current().kind {
            Kind::Ident => self.next().text.to_string(),
            _ => String::new(),
        };
        Ok(Argument { name, ty, list_len, default: None, kwarg_only: false, alias })
    }

    /// A type with its suffixes, the annotation, and the length of its outermost list.
    fn type_with_alias(&mut self) -> Result<(Type, Option<AliasInfo>, Option<u32>)> {
        let mut ty = self.base_type()?;
        let mut alias = self.alias()?;
        let mut list_len = None;
        loop {
            if self.next_if('?') {
                ty = Type::Optional(Box::new(ty));
            } else if self.is('[') {
                self.next();
                // Only the outermost list may have a length, and nothing but `?` may follow it.
                if list_len.is_some() {
                    return self.error(self.tokens[self.at - 1], "expected ident but found '[' here");
                }
                if self.current().kind == Kind::Number {
                    let token = self.next();
                    match token.text.parse() {
                        Ok(n) => list_len = Some(n),
                        Err(_) => return self.error(token, "invalid list length"),
                    }
                }
                self.expect_char(']')?;
                ty = Type::List(Box::new(ty));
                let element = alias.take().map(Box::new);
                let whole = self.alias()?;
                alias = match (whole, element) {
                    (Some(mut whole), element) => {
                        whole.element = element;
                        Some(whole)
                    }
                    (None, Some(element)) => Some(AliasInfo {
                        is_write: element.is_write,
                        element: Some(element),
                        ..AliasInfo::default()
                    }),
                    (None, None) => None,
                };
            } else {
                return Ok((ty, alias, list_len));
            }
        }
    }

    fn nested_type(&mut self) -> Result<Type> {
        Ok(self.type_with_alias()?.0)
    }

    fn type_list(&mut self) -> Result<Vec<Type>> {
        self.expect_char('(')?;
        let mut types = Vec::new();
        if self.next_if(')') {
            return Ok(types);
        }
        loop {
            types.push(self.nested_type()?);
            if !self.next_if(',') {
                break;
            }
        }
        self.expect_char(')')?;
        Ok(types)
    }

    fn base_type(&mut self) -> Result<Type> {
        if self.is('(') {
            return Ok(Type::Tuple(self.type_list()?));
        }
        let token = self.current();
        if matches!(token.kind, Kind::None | Kind::NoneType) {
            self.next();
            return Ok(Type::None);
        }
        self.expect(Kind::Ident)?;
        if let Some(ty) = Type::named(token.text) {
            return Ok(ty);
        }
        let one = |parser: &mut Self| -> Result<Box<Type>> {
            parser.expect_char('(')?;
            let ty = parser.nested_type()?;
            parser.expect_char(')')?;
            Ok(Box::new(ty))
        };
        match token.text {
            "Future" => return Ok(Type::Future(one(self)?)),
            "Await" => return Ok(Type::Await(one(self)?)),
            "RRef" => return Ok(Type::RRef(one(self)?)),
            "Union" => return Ok(Type::Union(self.type_list()?)),
            "Dict" => {
                self.expect_char('(')?;
                let key = self.nested_type()?;
                self.expect_char(',')?;
                let value = self.nested_type()?;
                self.expect_char(')')?;
                return Ok(Type::Dict(Box::new(key), Box::new(value)));
            }
            _ => {}
        }
        let is_class = token.text == "__torch__";
        let is_variable = self.allow_variables && token.text.starts_with(|c: char| c.is_ascii_lowercase());
        if !is_class && !is_variable {
            return self.error(
                token,
                "\nunknown type specifier. Common valid schema types include Tensor, SymInt, int, float, bool, \
                 Scalar; for a full list, please see \
                 https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md#func ",
            );
        }
        let mut name = token.text.to_string();
        while self.next_if('.') {
            name.push('.');
            name.push_str(self.expect(Kind::Ident)?.text);
        }
        Ok(if is_class { Type::Class(name) } else { Type::Var(name) })
    }

    fn alias(&mut self) -> Result<Option<AliasInfo>> {
        if !self.next_if('(') {
            return Ok(None);
        }
        let before_set = self.alias_set()?;
        let is_write = self.next_if('!');
        let after_set = if self.next_if_kind(Kind::Arrow) { self.alias_set()? } else { before_set.clone() };
        self.expect_char(')')?;
        Ok(Some(AliasInfo { before_set, after_set, is_write, element: None }))
    }

    fn alias_set(&mut self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        loop {
            let name = if self.next_if('*') { "*" } else { self.expect(Kind::Ident)?.text };
            names.push(name.to_string());
            if !self.next_if('|') {
                break;
            }
        }
        // Upstream keeps them in a hash set, which lists short sets backwards.
        names.reverse();
        Ok(names)
    }

    fn default(&mut self, ty: &Type, list_len: Option<u32>) -> Result<Default> {
        match ty {
            Type::Tensor | Type::Generator | Type::Quantizer => {
                self.expect(Kind::None).map(|_| Default::None)
            }
            Type::Device => {
                let token = self.expect(Kind::StringLiteral)?;
                Ok(Default::Device(self.unquote(token)?))
            }
            Type::List(element) => match list_len {
                Some(n) if !self.is('[') => {
                    let value = self.constant(element)?;
                    self.list(element, vec![value; n as usize])
                }
                _ => {
                    self.expect_char('[')?;
                    let mut values = Vec::new();
                    while !self.is(']') {
                        values.push(self.constant(element)?);
                        if !self.next_if(',') {
                            break;
                        }
                    }
                    self.expect_char(']')?;
                    self.list(element, values)
                }
            },
            Type::Int
            | Type::SymInt
            | Type::Float
            | Type::Bool
            | Type::Complex
            | Type::Scalar
            | Type::Str
            | Type::ScalarType
            | Type::Layout
            | Type::MemoryFormat
            | Type::Optional(_) => self.constant(ty),
            _ => self.error(self.current(), "\nunexpected type, file a bug report"),
        }
    }

    fn list(&self, element: &Type, values: Vec<Default>) -> Result<Default> {
        let message = "\nlists are only supported for float, int and complex types";
        let wrong = || self.error(self.tokens[self.at - 1], message);
        let collected = match element {
            Type::Int | Type::SymInt => values
                .into_iter()
                .map(|v| if let Default::Int(i) = v { Some(i) } else { None })
                .collect::<Option<_>>()
                .map(Default::IntList),
            Type::Float => values
                .into_iter()
                .map(|v| if let Default::Float(x) = v { Some(x) } else { None })
                .collect::<Option<_>>()
                .map(Default::FloatList),
            Type::Bool => values
                .into_iter()
                .map(|v| if let Default::Bool(b) = v { Some(b) } else { None })
                .collect::<Option<_>>()
                .map(Default::BoolList),
            Type::Complex => values
                .into_iter()
                .map(|v| if let Default::Complex(re, im) = v { Some((re, im)) } else { None })
                .collect::<Option<_>>()
                .map(Default::ComplexList),
            _ => None,
        };
        collected.map_or_else(wrong, Ok)
    }

    /// A single value. The type decides only how a number is read.
    fn constant(&mut self, ty: &Type) -> Result<Default> {
        let token = self.current();
        match token.kind {
            Kind::True => {
                self.next();
                Ok(Default::Bool(true))
            }
            Kind::False => {
                self.next();
                Ok(Default::Bool(false))
            }
            Kind::None => {
                self.next();
                Ok(Default::None)
            }
            Kind::StringLiteral => {
                self.next();
                self.unquote(token).map(Default::Str)
            }
            Kind::Ident => {
                self.next();
                let code = match token.text {
                    "Mean" => Some(1),
                    "contiguous_format" | "strided" => Some(0),
                    word => scalar_type_code(word),
                };
                match code {
                    Some(code) => Ok(Default::Int(code)),
                    None => self.error(token, "\ninvalid numeric default value"),
                }
            }
            _ => {
                let negative = self.next_if('-');
                let token = self.expect(Kind::Number)?;
                self.number(token, negative, ty)
            }
        }
    }

    fn number(&self, token: Token<'_>, negative: bool, ty: &Type) -> Result<Default> {
        let text = if negative { format!("-{}", token.text) } else { token.text.to_string() };
        let float = |digits: &str| -> Result<f64> {
            match digits.parse() {
                Ok(value) => Ok(value),
                Err(_) => self.error(token, "\ninvalid numeric default value"),
            }
        };
        if let Some(imaginary) = text.strip_suffix('j') {
            return Ok(Default::Complex(0.0, float(imaginary)?));
        }
        if *ty == Type::Complex {
            return self.error(token, "\ninvalid numeric default value");
        }
        if *ty == Type::Float || text.contains(['.', 'e', 'E']) {
            return Ok(Default::Float(float(&text)?));
        }
        match text.parse() {
            Ok(value) => Ok(Default::Int(value)),
            Err(_) => self.error(token, "\ninteger default value out of range"),
        }
    }

    fn unquote(&self, token: Token<'_>) -> Result<String> {
        let inner = &token.text[1..token.text.len() - 1];
        let mut text = String::with_capacity(inner.len());
        let mut chars = inner.chars();
        while let Some(c) = chars.next() {
            if c != '\\' {
                text.push(c);
                continue;
            }
            match chars.next() {
                Some('a') => text.push('\x07'),
                Some('b') => text.push('\x08'),
                Some('f') => text.push('\x0c'),
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                Some('t') => text.push('\t'),
                Some('v') => text.push('\x0b'),
                Some(quoted @ ('\\' | '\'' | '"')) => text.push(quoted),
                Some('x') => return self.error(token, "\nunsupported hex specifier"),
                Some('u' | 'U') => return self.error(token, "\nunsupported unicode specifier"),
                Some('0'..='9') => return self.error(token, "\nill formed octal specifier"),
                Some(other) => {
                    text.push('\\');
                    text.push(other);
                }
                None => text.push('\\'),
            }
        }
        Ok(text)
    }
}
