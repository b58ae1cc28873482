//! The language's grammar: statements of words, attributes and bodies.

use super::{LanguageError, wrong};
use winnow::ascii::{line_ending, multispace1, till_line_ending};
use winnow::combinator::{
    alt, delimited, opt, peek, preceded, repeat, separated, separated_pair, terminated,
};
use winnow::error::{ContextError, ErrMode};
use winnow::prelude::*;
use winnow::stream::{LocatingSlice, Location};
use winnow::token::{none_of, one_of, take_while};

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The line in which it begins, from 1.
    pub line: usize,
    /// What precedes its attributes.
    pub words: Vec<String>,
    /// Its attributes, in order.
    pub attributes: Vec<Attribute>,
    /// What stands in its braces.
    pub body: Vec<Statement>,
}

/// An attribute; one without a value is set.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Option<Said>,
}

/// A value, as it was said.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A word, number, path or `$setting`.
    Bare(String),
    /// A text in quotes.
    Quoted(String),
    /// `cvar(type=…,parameters=…)`.
    Drawn {
        /// Its type.
        kind: String,
        /// Its parameters.
        parameters: Vec<(String, f64)>,
    },
}

type Input<'a> = LocatingSlice<&'a str>;
type Result<T> = winnow::Result<T, ErrMode<ContextError>>;

/// How deep bodies stand in bodies: a process's threads have some, and nothing has in them.
const DEEPEST: usize = 4;

/// All statements of a text.
pub fn parse(text: &str) -> std::result::Result<Vec<Statement>, LanguageError> {
    let mut input = LocatingSlice::new(text);
    let mut line_at = Lines { text, offset: 0, line: 1 };
    let mut statements = Vec::new();
    loop {
        let outcome = blank(&mut input).and_then(|()| {
            if input.is_empty() { Ok(None) } else { statement(&mut input, DEEPEST).map(Some) }
        });
        match outcome {
            Ok(Some(next)) => statements.push(next.with_lines(&mut line_at)),
            Ok(None) => return Ok(statements),
            Err(_) => {
                let at = input.current_token_start();
                let rest: String = text[at..].chars().take(20).collect();
                let rest = rest.lines().next().unwrap_or_default().to_owned();
                let what = if rest.is_empty() {
                    "the text ends too early".into()
                } else {
                    format!("cannot read `{}`", rest.escape_default())
                };
                let mend = "a statement is words, then name=value, …, then perhaps { … }";
                return Err(wrong(line_at.of(at), what, mend));
            }
        }
    }
}

/// One value, said elsewhere than in a file.
pub fn value(text: &str, line: usize) -> std::result::Result<Said, LanguageError> {
    let mut input = LocatingSlice::new(text);
    match said(&mut input) {
        Ok(value) if input.is_empty() => Ok(value),
        _ => Err(wrong(
            line,
            format!("`{}` is no value", text.escape_default()),
            "write a number, a word or cvar(…)",
        )),
    }
}

/// Numbers of lines, of places that only go up.
struct Lines<'a> {
    text: &'a str,
    offset: usize,
    line: usize,
}

impl Lines<'_> {
    fn of(&mut self, offset: usize) -> usize {
        let offset = offset.max(self.offset);
        self.line += self.text[self.offset..offset].matches('\n').count();
        self.offset = offset;
        self.line
    }
}

impl Statement {
    /// Turns places in the text, which lines are at first, into lines.
    fn with_lines(mut self, lines: &mut Lines) -> Statement {
        self.line = lines.of(self.line);
        self.body = self.body.into_iter().map(|inner| inner.with_lines(lines)).collect();
        self
    }
}

fn comment(input: &mut Input) -> Result<()> {
    ('#', till_line_ending).void().parse_next(input)
}

/// Spaces, line ends and comments.
fn blank(input: &mut Input) -> Result<()> {
    repeat::<_, _, (), _, _>(0.., alt((multispace1.void(), comment))).parse_next(input)
}

/// Spaces within a line; a backslash at its end goes on in the next.
fn space(input: &mut Input) -> Result<()> {
    let one = alt((one_of([' ', '\t']).void(), ('\\', line_ending).void()));
    repeat::<_, _, (), _, _>(0.., one).parse_next(input)
}

fn is_word(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, ',' | '=' | '{' | '}' | '"' | '#' | ';' | '(' | ')')
}

fn word<'a>(input: &mut Input<'a>) -> Result<&'a str> {
    take_while(1.., is_word).parse_next(input)
}

fn statement(input: &mut Input, depth: usize) -> Result<Statement> {
    let line = input.current_token_start();
    // A word that `=` or `,` follows begins the attributes.
    let follows = |input: &mut Input| peek((space, one_of(['=', ',']))).void().parse_next(input);
    let mut words = Vec::new();
    let mut attributes = Vec::new();
    loop {
        let before = input.checkpoint();
        let Ok(next) = alt((word.map(str::to_owned), quoted)).parse_next(input) else {
            winnow::stream::Stream::reset(input, &before);
            break;
        };
        let begins: Result<()> = follows(input);
        if begins.is_ok() && !words.is_empty() {
            winnow::stream::Stream::reset(input, &before);
            attributes = separated(1.., attribute, comma).parse_next(input)?;
            break;
        }
        words.push(next);
        space(input)?;
    }
    if words.is_empty() {
        return Err(ErrMode::Backtrack(ContextError::new()));
    }
    let before = input.checkpoint();
    let opens: Result<char> = preceded(blank, '{').parse_next(input);
    let mut body = Vec::new();
    if opens.is_ok() {
        if depth == 0 {
            return Err(ErrMode::Cut(ContextError::new()));
        }
        loop {
            blank(input)?;
            if opt('}').parse_next(input)?.is_some() {
                break;
            }
            body.push(statement(input, depth - 1)?);
        }
    } else {
        winnow::stream::Stream::reset(input, &before);
        let ends = alt((line_ending.void(), comment, winnow::combinator::eof.void(), '}'.void()));
        preceded(space, peek(ends)).parse_next(input)?;
    }
    Ok(Statement { line, words, attributes, body })
}

/// A comma, around which lines may end.
fn comma(input: &mut Input) -> Result<()> {
    (space, ',', blank).void().parse_next(input)
}

fn attribute(input: &mut Input) -> Result<Attribute> {
    let name = word.parse_next(input)?;
    let value = opt(preceded((space, '=', space), said)).parse_next(input)?;
    Ok(Attribute { name: name.to_owned(), value })
}

fn said(input: &mut Input) -> Result<Said> {
    alt((drawn, quoted.map(Said::Quoted), word.map(|text: &str| Said::Bare(text.to_owned()))))
        .parse_next(input)
}

fn quoted(input: &mut Input) -> Result<String> {
    delimited('"', repeat(0.., none_of(['"'])), '"').parse_next(input)
}

fn drawn(input: &mut Input) -> Result<Said> {
    ("cvar", space, '(', blank).void().parse_next(input)?;
    let kind = preceded(("type", space, '=', space), word).parse_next(input)?;
    let list = (comma, "parameters", space, '=', space);
    let mut list = opt(preceded(list, alt((delimited('"', parameters, '"'), parameters))));
    let parameters = list.parse_next(input)?.unwrap_or_default();
    terminated(blank, ')').parse_next(input)?;
    Ok(Said::Drawn { kind: kind.to_owned(), parameters })
}

/// `mean:16384;gamma:1.5`.
fn parameters(input: &mut Input) -> Result<Vec<(String, f64)>> {
    let name = take_while(1.., |c: char| is_word(c) && c != ':').map(str::to_owned);
    let digits = |c: char| c.is_ascii_digit() || ".eE+-".contains(c);
    let number = take_while(1.., digits).try_map(str::parse::<f64>);
    separated(1.., separated_pair(name, ':', number), ';').parse_next(input)
}
