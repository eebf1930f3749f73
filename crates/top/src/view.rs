//! What of the router is looked at, and how keys change that. Pure: no terminal, no clock.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::sample::Sample;
use crate::table::{Tab, Table, table};

/// Longest text to filter by.
const FILTER_MOST: usize = 64;

/// How one tab is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub column: usize,
    pub reverse: bool,
}

/// What is looked at.
#[derive(Debug)]
pub struct View {
    pub tab: usize,
    /// By tab.
    pub orders: [Order; 5],
    pub paused: bool,
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    pub help: bool,
    /// First row shown.
    pub top: usize,
    pub color: bool,
    /// Who is looked at.
    pub title: String,
    /// What is wrong with the connection.
    pub trouble: Option<String>,
    older: Option<Sample>,
    newer: Sample,
}

impl View {
    /// The interfaces of a router, by name.
    pub fn new(title: &str, color: bool) -> View {
        let by = |column| Order {
            column,
            reverse: false,
        };
        View {
            tab: 0,
            // Interfaces and workers by name, nodes and drops by packets a second, flows by bits.
            orders: [by(0), by(2), by(2), by(0), by(6)],
            paused: false,
            filter: String::new(),
            typing: false,
            help: false,
            top: 0,
            color,
            title: title.to_owned(),
            trouble: None,
            older: None,
            newer: Sample::default(),
        }
    }

    /// Takes the next look, or why there is none.
    pub fn take(&mut self, look: Result<Sample, String>) {
        match look {
            Ok(sample) => {
                self.trouble = None;
                let older = std::mem::replace(&mut self.newer, sample);
                self.older = Some(older).filter(|o| !o.interfaces.is_empty());
            }
            Err(why) => self.trouble = Some(why),
        }
    }

    /// The chosen tab.
    pub fn tab(&self) -> Tab {
        Tab::ALL[self.tab.min(Tab::ALL.len() - 1)]
    }

    /// Its table, filtered and in order.
    pub fn table(&self) -> Table {
        let mut t = table(self.tab(), self.older.as_ref(), &self.newer);
        if !self.filter.is_empty() {
            t.filter(&self.filter);
        }
        let order = self.orders[self.tab];
        t.sort(order.column, order.reverse);
        t
    }

    /// Does what a key says; true = end.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return true;
        }
        if self.typing {
            self.type_filter(key.code);
            return false;
        }
        let columns = self.table().columns.len();
        let order = &mut self.orders[self.tab];
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc if !self.help => return true,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            _ if self.help => self.help = false,
            KeyCode::Tab => self.show((self.tab + 1) % Tab::ALL.len()),
            KeyCode::BackTab => self.show((self.tab + Tab::ALL.len() - 1) % Tab::ALL.len()),
            KeyCode::Char(c @ '1'..='5') => self.show(c as usize - '1' as usize),
            KeyCode::Char('s') => order.column = (order.column + 1) % columns,
            KeyCode::Char('S') => order.column = (order.column + columns - 1) % columns,
            KeyCode::Char('r') => order.reverse = !order.reverse,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Down | KeyCode::Char('j') => self.top = self.top.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.top = self.top.saturating_sub(1),
            KeyCode::PageDown => self.top = self.top.saturating_add(20),
            KeyCode::PageUp => self.top = self.top.saturating_sub(20),
            KeyCode::Home => self.top = 0,
            _ => {}
        }
        self.top = self.top.min(self.table().rows.len().saturating_sub(1));
        false
    }

    fn show(&mut self, tab: usize) {
        self.tab = tab;
        self.top = 0;
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if self.filter.len() < FILTER_MOST => self.filter.push(c),
            _ => {}
        }
        self.top = 0;
    }
}
