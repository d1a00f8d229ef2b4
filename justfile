# Shorthands; each line also works typed by hand, and just (https://just.systems) is optional.

# lists these
_default:
    @just --list --unsorted

# runs the service on SQLite
run *args:
    cargo run --locked -- serve {{ args }}

# runs the tests, with servers of their own where none are running
test *args:
    tests/run {{ args }}

# runs everything that must hold before a change goes in
ci:
    .ci/run

# formats the code
fmt:
    cargo fmt

# runs clippy, warnings being errors
lint:
    cargo clippy --locked --all-targets -- -D warnings

# builds the code's documentation, private items included
docs:
    cargo doc --locked --no-deps --document-private-items

# writes openapi/openapi.json anew
openapi:
    mkdir -p openapi
    cargo run --locked -q -- openapi > openapi/openapi.json.new
    mv openapi/openapi.json.new openapi/openapi.json
