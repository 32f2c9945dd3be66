package schema

import (
	"context"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"
)

// Warning is a server's setting with which a promise of qrtz does not hold.
type Warning struct {
	Setting, Value string
	Want           string // the value, or values, with which it does
	Why            string // what happens otherwise
}

// promise is one rule on settings. A server that does not know its setting has no other value than the right one.
type promise struct {
	setting string
	broken  func(value string, all map[string]string) bool
	want    string
	why     string
}

var promises = []promise{
	{
		setting: "innodb_flush_log_at_trx_commit", want: "1",
		// A server of a Galera cluster that comes back gets what it lost from the others.
		broken: func(v string, all map[string]string) bool { return (v == "0" || v == "2") && all["wsrep_on"] != "ON" },
		why:    "the server may lose its last second of commits when it dies (0) or its machine does (2): fires claimed in it are started again",
	},
	{
		setting: "sync_binlog", want: "1",
		broken: func(v string, all map[string]string) bool {
			return v != "1" && all["log_bin"] == "ON" && all["wsrep_on"] != "ON"
		},
		why: "after a power failure the server takes back what its binary log does not have: fires claimed last are started again",
	},
	{setting: "read_only", broken: isOn, want: "OFF", why: "the server refuses to write, unless the account may write all the same: is it a replica?"},
	{setting: "super_read_only", broken: isOn, want: "OFF", why: "the server refuses to write: is it a replica?"},
	{setting: "innodb_read_only", broken: isOn, want: "OFF", why: "the server refuses to write"},
	{setting: "unique_checks", broken: isOff, want: "ON", why: "the keys that keep a fire from being recorded twice need not hold"},
	{setting: "check_constraint_checks", broken: isOff, want: "ON", why: "mistyped states and times are not refused"},
}

func isOn(v string, _ map[string]string) bool  { return v != "OFF" && v != "0" } // MariaDB 12 has more than ON
func isOff(v string, _ map[string]string) bool { return v == "OFF" || v == "0" }

// Settings reads the server's settings and names those with which a promise does not hold. It returns an
// *UnsafeCharsetError if a quote can hide in the session's character set.
func Settings(ctx context.Context, db *sqlx.DB) ([]Warning, error) {
	names := []any{"character_set_client", "log_bin", "wsrep_on"}
	for _, p := range promises {
		names = append(names, p.setting)
	}
	var rows []struct {
		Name  string `db:"Variable_name"`
		Value string `db:"Value"`
	}
	query := `SHOW VARIABLES WHERE Variable_name IN (?` + strings.Repeat(", ?", len(names)-1) + `)`
	if err := db.SelectContext(ctx, &rows, query, names...); err != nil {
		return nil, fmt.Errorf("read the server's settings: %w", err)
	}
	all := make(map[string]string, len(rows))
	for _, r := range rows {
		all[r.Name] = r.Value
	}
	if err := SafeCharset(all["character_set_client"]); err != nil {
		return nil, err
	}
	var warnings []Warning
	for _, p := range promises {
		if value, ok := all[p.setting]; ok && p.broken(value, all) {
			warnings = append(warnings, Warning{Setting: p.setting, Value: value, Want: p.want, Why: p.why})
		}
	}
	return warnings, nil
}

// Where names the database that a pool leads to, and the server, as the server itself calls them.
func Where(ctx context.Context, db *sqlx.DB) string {
	var at string
	if err := db.GetContext(ctx, &at, `SELECT CONCAT('database ', COALESCE(DATABASE(), '(none)'), ' of ', @@hostname, ':', @@port)`); err != nil {
		return "a database that does not tell its name (" + err.Error() + ")"
	}
	return at
}
