//! sFlow v5 structures, encode and decode, text, CSV and JSON printers.
