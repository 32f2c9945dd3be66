package qrtztest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"

	"github.com/qrtz-go/qrtz/schema"
)

// template is what makes the qrtz tables in an empty database: statements that the first database of this test binary was asked for once
// it had been migrated. They take a tenth of the time.
var template struct {
	sync.Mutex
	statements []string
}

// fill gives an empty database the qrtz tables.
func fill(ctx context.Context, cfg *mysql.Config) (err error) {
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	template.Lock()
	statements := template.statements
	if statements == nil {
		defer template.Unlock()
		if _, err := schema.Up(ctx, db, schema.DefaultPrefix); err != nil {
			return err
		}
		template.statements, err = dump(ctx, db, cfg.DBName)
		return err
	}
	template.Unlock()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for _, s := range statements {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("make the qrtz tables: %w: %s", err, s)
		}
	}
	return nil
}

// dump returns what makes the tables and views of a database again, and fills QRTZ_SCHEMA, which alone has rows.
func dump(ctx context.Context, db *sql.DB, name string) (statements []string, err error) {
	for _, kind := range []string{"BASE TABLE", "VIEW"} {
		names, err := column(ctx, db, `SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE = ? ORDER BY 1`, kind)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			rows, err := db.QueryContext(ctx, "SHOW CREATE TABLE `"+n+"`")
			if err != nil {
				return nil, err
			}
			create, err := second(rows)
			if err != nil {
				return nil, fmt.Errorf("how %s was made: %w", n, err)
			}
			statements = append(statements, strings.ReplaceAll(create, "`"+name+"`.", ""))
		}
	}
	versions, err := column(ctx, db, `SELECT CONCAT('INSERT INTO QRTZ_SCHEMA (VERSION, NAME) VALUES (', VERSION, ', ', QUOTE(NAME), ')') FROM QRTZ_SCHEMA ORDER BY VERSION`)
	return append(statements, versions...), err
}

// column is the one column of a query.
func column(ctx context.Context, db *sql.DB, query string, args ...any) (all []string, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// second is the second column of the one row.
func second(rows *sql.Rows) (text string, err error) {
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	into := make([]any, len(columns))
	for i := range into {
		into[i] = new(sql.RawBytes)
	}
	into[1] = &text
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return "", err
		}
	}
	return text, rows.Err()
}
