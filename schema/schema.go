// Package schema holds the tables of qrtz: their numbered migrations, the table prefix, and what
// the rest of the project must know about the server's errors. Only what migrates is public, as
// docs/stability.md lists it; the rest is not part of qrtz's API.
package schema

import (
	"fmt"
	"regexp"
	"strings"
)

// DefaultPrefix is what the table names begin with unless told otherwise.
const DefaultPrefix Prefix = "QRTZ_"

// Prefix is what the names of tables, views, keys and constraints begin with.
// It is the only text that ever becomes part of a statement; call Validate before using one.
type Prefix string

var prefixPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,19}$`)

// Validate refuses a prefix that is not a plain identifier of at most 20 characters.
func (p Prefix) Validate() error {
	if !prefixPattern.MatchString(string(p)) {
		return fmt.Errorf("table prefix %q: want a letter, then at most 19 letters, digits or _ (for example %q)", string(p), string(DefaultPrefix))
	}
	return nil
}

// SQL is query, written for the default prefix, with the names of this one.
func (p Prefix) SQL(query string) string {
	if p == DefaultPrefix {
		return query
	}
	return strings.ReplaceAll(query, string(DefaultPrefix), string(p))
}
