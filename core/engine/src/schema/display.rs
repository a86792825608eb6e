//! Writes schemas as upstream's `str(schema)` does.

use std::fmt::{self, Write};

use super::{AliasInfo, Argument, Default, FunctionSchema, Type};

impl fmt::Display for FunctionSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.overload_name.is_empty() {
            write!(f, ".{}", self.overload_name)?;
        }
        f.write_str("(")?;
        let mut starred = false;
        for (i, argument) in self.arguments.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            if argument.kwarg_only && !starred {
                f.write_str("*, ")?;
                starred = true;
            }
            write!(f, "{argument}")?;
        }
        write_ellipsis(f, self.is_vararg, self.arguments.is_empty())?;
        f.write_str(") -> ")?;

        let bare = match self.returns.as_slice() {
            [] => self.is_varret,
            // A tuple in parentheses of its own would read as several returns.
            [one] => !self.is_varret && !matches!(one.ty, Type::Tuple(_)) && !starts_with_tuple(&one.ty),
            _ => false,
        };
        if !bare {
            f.write_str("(")?;
        }
        for (i, value) in self.returns.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{value}")?;
        }
        write_ellipsis(f, self.is_varret, self.returns.is_empty())?;
        if !bare {
            f.write_str(")")?;
        }
        Ok(())
    }
}

fn starts_with_tuple(ty: &Type) -> bool {
    match ty {
        Type::Tuple(_) => true,
        Type::List(t) | Type::Optional(t) => starts_with_tuple(t),
        _ => false,
    }
}

fn write_ellipsis(f: &mut fmt::Formatter<'_>, wanted: bool, alone: bool) -> fmt::Result {
    match (wanted, alone) {
        (false, _) => Ok(()),
        (true, true) => f.write_str("..."),
        (true, false) => f.write_str(", ..."),
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The question mark comes after the alias annotation: `Tensor(a!)?`.
        match self.ty.unwrap_optional() {
            Type::List(element) => {
                write!(f, "{element}")?;
                if let Some(alias) = self.alias.as_ref().and_then(|a| a.element.as_ref()) {
                    write!(f, "{alias}")?;
                }
                match self.list_len {
                    Some(n) => write!(f, "[{n}]")?,
                    None => f.write_str("[]")?,
                }
            }
            other => write!(f, "{other}")?,
        }
        if let Some(alias) = self.alias.as_ref().filter(|a| !a.before_set.is_empty()) {
            write!(f, "{alias}")?;
        }
        if self.ty.is_optional() {
            f.write_str("?")?;
        }
        if !self.name.is_empty() {
            write!(f, " {}", self.name)?;
        }
        match &self.default {
            None => Ok(()),
            Some(Default::Str(text)) if *self.ty.unwrap_optional() == Type::Str => {
                f.write_str("=")?;
                write_quoted(f, text)
            }
            // Of a list of plain integers that are all the same one stands for all.
            Some(Default::IntList(values))
                if values.len() > 1
                    && values.iter().all(|v| *v == values[0])
                    && self.ty == Type::List(Box::new(Type::Int)) =>
            {
                write!(f, "={}", values[0])
            }
            Some(default) => write!(f, "={default}"),
        }
    }
}

impl fmt::Display for AliasInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}", self.before_set.join("|"))?;
        if self.is_write {
            f.write_str("!")?;
        }
        if self.before_set != self.after_set {
            write!(f, " -> {}", self.after_set.join("|"))?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Default {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Default::None => f.write_str("None"),
            Default::Bool(value) => write_bool(f, *value),
            Default::Int(value) => write!(f, "{value}"),
            Default::Float(value) => write_float(f, *value),
            Default::Complex(re, im) => write_complex(f, *re, *im),
            Default::Str(text) | Default::Device(text) => f.write_str(text),
            Default::BoolList(values) => write_list(f, values, |f, v| write_bool(f, *v)),
            Default::IntList(values) => write_list(f, values, |f, v| write!(f, "{v}")),
            Default::FloatList(values) => write_list(f, values, |f, v| write_float(f, *v)),
            Default::ComplexList(values) => write_list(f, values, |f, v| write_complex(f, v.0, v.1)),
        }
    }
}

fn write_list<T>(
    f: &mut fmt::Formatter<'_>,
    values: &[T],
    write_one: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    f.write_str("[")?;
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write_one(f, value)?;
    }
    f.write_str("]")
}

fn write_bool(f: &mut fmt::Formatter<'_>, value: bool) -> fmt::Result {
    f.write_str(if value { "True" } else { "False" })
}

fn write_complex(f: &mut fmt::Formatter<'_>, re: f64, im: f64) -> fmt::Result {
    write_float(f, re)?;
    if im >= 0.0 {
        f.write_str("+")?;
    }
    write_float(f, im)?;
    f.write_str("j")
}

/// Writes a float as upstream's interpreter values print: `1.`, `0.10000000000000001`, `1e+20`.
pub fn write_float(f: &mut impl Write, value: f64) -> fmt::Result {
    const DIGITS: i32 = 17;
    if value.is_nan() {
        return f.write_str("nan");
    }
    if value.is_infinite() {
        return f.write_str(if value > 0.0 { "inf" } else { "-inf" });
    }
    if value == value.trunc() && value.abs() < i64::MAX as f64 {
        return write!(f, "{}.", value as i64);
    }
    // C's %.17g.
    let scientific = format!("{:.*e}", DIGITS as usize - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').expect("`{:e}` writes an exponent");
    let exponent: i32 = exponent.parse().expect("`{:e}` writes a decimal exponent");
    if (-4..DIGITS).contains(&exponent) {
        let fixed = format!("{:.*}", (DIGITS - 1 - exponent) as usize, value);
        return f.write_str(trim_zeros(&fixed));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(f, "{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs())
}

fn trim_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '\\' => f.write_str("\\\\")?,
            '\'' => f.write_str("\\'")?,
            '"' => f.write_str("\\\"")?,
            '\x07' => f.write_str("\\a")?,
            '\x08' => f.write_str("\\b")?,
            '\x0c' => f.write_str("\\f")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '\x0b' => f.write_str("\\v")?,
            ' '..='~' => f.write_char(c)?,
            other => {
                let mut bytes = [0; 4];
                for byte in other.encode_utf8(&mut bytes).bytes() {
                    write!(f, "\\{byte:03o}")?;
                }
            }
        }
    }
    f.write_str("\"")
}
