"""Option tables, one per release, and the script that makes them."""
