//! The screen of a view. It fits whatever size the terminal has: what has no room is cut.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table as Widget};

use crate::table::{Cell, Tab};
use crate::view::View;

const HELP: &str = "\
 tab, 1-5   another table          s, S   sort by the next, the previous column
 p, space   pause and go on        r      turn the order round
 /          filter (enter keeps    up, down, page up, page down, home
            it, escape drops it)          move in a long table
 ?, h       this help              q      end";

/// Draws a view.
pub fn draw(frame: &mut Frame<'_>, view: &View) {
    let rows = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ];
    let [head, tabs, body, foot] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(title(view), head);
    frame.render_widget(tab_line(view), tabs);
    if view.help {
        frame.render_widget(Paragraph::new(HELP), body);
    } else {
        draw_table(frame, view, body);
    }
    frame.render_widget(keys(view), foot);
}

fn alarm(view: &View) -> Style {
    let style = Style::new().add_modifier(Modifier::BOLD);
    if view.color {
        style.fg(Color::Red)
    } else {
        style
    }
}

fn title(view: &View) -> Paragraph<'_> {
    let mut spans = vec![Span::raw(view.title.as_str())];
    if view.paused {
        spans.push(Span::styled(
            "  paused",
            Style::new().add_modifier(Modifier::BOLD),
        ));
    }
    if let Some(trouble) = &view.trouble {
        spans.push(Span::styled(format!("  {trouble}"), alarm(view)));
    }
    Paragraph::new(Line::from(spans))
}

fn tab_line(view: &View) -> Paragraph<'_> {
    let chosen = Style::new().add_modifier(Modifier::REVERSED);
    let mut spans = Vec::new();
    for (i, tab) in Tab::ALL.iter().enumerate() {
        let style = if i == view.tab { chosen } else { Style::new() };
        spans.push(Span::styled(format!(" {} {} ", i + 1, tab.title()), style));
    }
    Paragraph::new(Line::from(spans))
}

fn keys(view: &View) -> Paragraph<'_> {
    if view.typing {
        return Paragraph::new(format!("filter: {}_", view.filter));
    }
    let filter = if view.filter.is_empty() {
        String::new()
    } else {
        format!("   [{}]", view.filter)
    };
    Paragraph::new(format!(
        "q end  tab next  s sort  r reverse  p pause  / filter  ? help{filter}"
    ))
}

fn draw_table(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let table = view.table();
    let order = view.orders[view.tab];
    let widths = table.widths();
    // One more for the mark of the column that orders.
    let constraints = widths
        .iter()
        .map(|w| Constraint::Length(u16::try_from(*w + 1).unwrap_or(u16::MAX)));
    let right: Vec<bool> = (0..widths.len())
        .map(|i| {
            table
                .rows
                .first()
                .and_then(|r| r.get(i))
                .is_some_and(Cell::is_number)
        })
        .collect();
    let pad = |i: usize, text: String| {
        let w = widths[i];
        if right[i] {
            format!("{text:>w$}")
        } else {
            text
        }
    };
    let heads = table.columns.iter().enumerate().map(|(i, name)| {
        let mark = match (i == order.column, order.reverse) {
            (false, _) => "",
            (true, false) => "▼",
            (true, true) => "▲",
        };
        pad(i, (*name).to_owned()) + mark
    });
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let drops = table.columns.iter().position(|c| *c == "drops_ps");
    let rows = table
        .rows
        .iter()
        .skip(view.top)
        .take(usize::from(area.height))
        .map(|row| {
            let cells: Vec<String> = row
                .iter()
                .enumerate()
                .map(|(i, c)| pad(i, c.shown()))
                .collect();
            let dropping = drops
                .and_then(|d| row.get(d))
                .is_some_and(|c| matches!(c, Cell::Number(n) if *n > 0.0));
            let style = if dropping && view.color {
                Style::new().fg(Color::Red)
            } else {
                Style::new()
            };
            Row::new(cells).style(style)
        });
    let widget = Widget::new(rows, constraints)
        .header(Row::new(heads).style(bold))
        .column_spacing(1);
    frame.render_widget(widget, area);
}
