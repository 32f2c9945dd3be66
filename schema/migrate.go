package schema

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// The migrations are plain SQL, numbered, and written so that each statement can be run twice: CREATE
// says IF NOT EXISTS, data is only filled in where it is missing, and "column exists already" and its
// like are no errors. That, not a lock, makes it safe for several nodes to migrate at once and for one
// to continue where another was killed: DDL of MySQL and MariaDB is atomic statement by statement only,
// and GET_LOCK does not reach across the nodes of a Galera cluster (see galera.go for those).
//
//go:embed migrations/*.sql
var files embed.FS

// Migration is one numbered step of the schema.
type Migration struct {
	Version int
	Name    string // for example "cluster"
	SQL     string // for the default prefix
	Applied bool   // set by Status
}

// Latest is the version this program needs.
func Latest() int { return len(migrations()) }

// Up brings the schema to Latest and returns the migrations it ran. It upgrades an installation of
// version 1.3 in place, may run on several nodes at once, and does nothing the second time.
// Before changing anything it refuses rows that no program can make sense of, and names them.
func Up(ctx context.Context, db *sql.DB, prefix Prefix) ([]Migration, error) {
	if err := prefix.Validate(); err != nil {
		return nil, err
	}
	all, err := Status(ctx, db, prefix)
	if err != nil || !slices.ContainsFunc(all, func(m Migration) bool { return !m.Applied }) {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, prefix.SQL(createSchemaTable)); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	end, err := lockMigrations(ctx, conn, prefix)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	defer end()
	if all, err = status(ctx, conn, prefix); err != nil { // another node may have migrated before us
		return nil, err
	}
	if err := refuse(ctx, conn, prefix, all); err != nil {
		return nil, fmt.Errorf("migrate: nothing was changed: %w", err)
	}
	restore, err := allowIDZero(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	defer restore()
	var done []Migration
	for _, m := range all {
		if m.Applied {
			continue
		}
		if err := apply(ctx, conn, prefix, m); err != nil {
			return done, fmt.Errorf("migration %d (%s): %w", m.Version, m.Name, err)
		}
		done = append(done, m)
	}
	return done, nil
}

// Status lists all migrations and which of them the database has.
func Status(ctx context.Context, db *sql.DB, prefix Prefix) ([]Migration, error) {
	if err := prefix.Validate(); err != nil {
		return nil, err
	}
	return status(ctx, db, prefix)
}

// queryer is a pool or a connection.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func status(ctx context.Context, db queryer, prefix Prefix) ([]Migration, error) {
	all := migrations()
	rows, err := db.QueryContext(ctx, prefix.SQL(`SELECT VERSION FROM QRTZ_SCHEMA`))
	if NoSuchTable(err) {
		return all, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read schema version: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err says what there is to say
	for rows.Next() {
		var v int
		if err := rows.Scan(&v); err != nil {
			return nil, fmt.Errorf("read schema version: %w", err)
		}
		if v >= 1 && v <= len(all) {
			all[v-1].Applied = true
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read schema version: %w", err)
	}
	return all, nil
}

// Check returns an error that says what to do unless the database has every migration this program
// needs. A newer schema is fine: migrations only add.
func Check(ctx context.Context, db *sql.DB, prefix Prefix) error {
	all, err := Status(ctx, db, prefix)
	if err != nil {
		return err
	}
	for _, m := range all {
		if !m.Applied {
			return fmt.Errorf("the %s tables lack migration %d (%s): run `qrtz migrate up`, or call Scheduler.Migrate", prefix, m.Version, m.Name)
		}
	}
	return nil
}

// Print is all migrations as one SQL script, to be run on one connection. Up checks the rows of an
// installation of version 1.3 first; the script does not, and stops where the server refuses one.
func Print(prefix Prefix) (string, error) {
	if err := prefix.Validate(); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("SET @sql_mode_before = @@SESSION.sql_mode;\n" + permitIDZero + ";\n")
	b.WriteString(prefix.SQL(createSchemaTable) + ";\n")
	for _, m := range migrations() {
		fmt.Fprintf(&b, "\n-- Migration %d: %s\n\n%s\n", m.Version, m.Name, prefix.SQL(strings.TrimSpace(m.SQL)))
		fmt.Fprintf(&b, "\nINSERT IGNORE INTO %sSCHEMA (VERSION, NAME) VALUES (%d, '%s');\n", prefix, m.Version, m.Name)
	}
	b.WriteString("\nSET SESSION sql_mode = @sql_mode_before;\n")
	return b.String(), nil
}

const createSchemaTable = `CREATE TABLE IF NOT EXISTS QRTZ_SCHEMA (
  VERSION    INT NOT NULL,
  NAME       VARCHAR(50) NOT NULL,
  APPLIED_AT TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  PRIMARY KEY (VERSION)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`

// apply runs a migration. What the server rolls back because of others is run again: on Galera, a node that begins to migrate
// asks for QRTZ_SCHEMA, and that aborts whatever writes the table on other nodes just then.
func apply(ctx context.Context, conn *sql.Conn, prefix Prefix, m Migration) error {
	for _, statement := range statements(m.SQL) {
		err := Again(ctx, func() error {
			_, err := conn.ExecContext(ctx, prefix.SQL(statement))
			return err
		})
		if err != nil && !alreadyThere(err) {
			return fmt.Errorf("%w, in: %s", err, firstLine(statement))
		}
	}
	return Again(ctx, func() error {
		_, err := conn.ExecContext(ctx, prefix.SQL(`INSERT IGNORE INTO QRTZ_SCHEMA (VERSION, NAME) VALUES (?, ?)`), m.Version, m.Name)
		return err
	})
}

const permitIDZero = `SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',NO_AUTO_VALUE_ON_ZERO')`

// allowIDZero lets a v1.3 row with id 0 keep it when ids become AUTO_INCREMENT.
func allowIDZero(ctx context.Context, conn *sql.Conn) (restore func(), err error) {
	var mode string
	if err := conn.QueryRowContext(ctx, `SELECT @@SESSION.sql_mode`).Scan(&mode); err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, permitIDZero); err != nil {
		return nil, err
	}
	return func() {
		// A connection that cannot be put back must not return to the pool: it is broken then anyway.
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `SET SESSION sql_mode = ?`, mode)
	}, nil
}

func migrations() []Migration {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		panic(err) // the pattern is constant
	}
	var all []Migration
	for i, name := range names {
		number, title, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(name, "migrations/"), ".sql"), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			panic(fmt.Sprintf("schema: %s is out of order", name)) // a mistake at build time; a test loads them all
		}
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err)
		}
		all = append(all, Migration{Version: i + 1, Name: title, SQL: string(text)})
	}
	return all
}

// statements splits a migration at the semicolons that end a line, and drops comment lines.
func statements(text string) []string {
	var all []string
	var current strings.Builder
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimSpace(line); trimmed == "" || strings.HasPrefix(trimmed, "--") {
			continue
		}
		current.WriteString(line)
		if s := strings.TrimSpace(current.String()); strings.HasSuffix(s, ";") {
			all = append(all, strings.TrimSuffix(s, ";"))
			current.Reset()
		}
	}
	return all
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
