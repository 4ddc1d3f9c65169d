"""A small shop: its database, and the same rows in files."""

import sqlite3
from pathlib import Path

SECRET = "canary-4711"

SCHEMA = f"""
CREATE TABLE products (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL, -- as printed on the shelf
    "Unit Price" NUMERIC
);
CREATE TABLE sales (
    id INTEGER PRIMARY KEY,
    product_id INTEGER REFERENCES products(id),
    team TEXT,
    units INTEGER, -- how many were sold at once
    sold_at TIMESTAMP,
    card_number TEXT
);
CREATE TABLE staff (id INTEGER PRIMARY KEY, name TEXT, ssn TEXT, salary INTEGER);
CREATE VIEW best_sellers AS SELECT product_id, sum(units) AS units FROM sales GROUP BY product_id;
INSERT INTO products VALUES (1, 'Fruity Fedora', 12.5), (2, 'Beanie', 9), (3, 'Straw hat', 7.25);
INSERT INTO sales VALUES
    (1, 1, 'north', 3, '2026-11-20 10:00:00', '{SECRET}'), (2, 2, 'south', 1, '2026-11-21 11:30:00', '{SECRET}');
INSERT INTO staff VALUES (1, 'Ann', '{SECRET}', 100);
"""


def make_shop(file: Path) -> str:
    """Make the database; returns its URL."""
    with sqlite3.connect(file) as sql:
        sql.executescript(SCHEMA)
    sql.close()
    return f"sqlite:///{file}"
