package schema

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
)

const (
	erAutoIncrementExhausted        = 1467
	erAutoIncrementExhaustedMariaDB = 167
	erSubqueryReturnsMore           = 1242 // how a claim has its INSERT fail when the row in its way is not of the same fire
)

// ExplainNoID says what to do if err is the server's answer that a table has no id left: some row had the greatest BIGINT,
// and the counter stays behind it when that row is deleted. No CHECK can keep it out, since servers allow none on a column
// that is AUTO_INCREMENT. Other errors are returned as they are.
func ExplainNoID(err error, prefix Prefix, table string) error {
	if !noIDLeft(err) {
		return err
	}
	table = prefix.SQL(table)
	return fmt.Errorf("%w: %s has no ID left, because some row had the greatest one (if none had, another transaction kept its end locked: try again): DELETE FROM %s WHERE ID >= 9000000000000000000; ALTER TABLE %s AUTO_INCREMENT = 1 "+
		"(the server makes that one more than the greatest ID that is left)", err, table, table, table)
}

// noIDLeft recognises what servers answer: that there is no value, or that the last one is there already.
func noIDLeft(err error) bool {
	if isNumber(err, erAutoIncrementExhausted, erAutoIncrementExhaustedMariaDB, erSubqueryReturnsMore) {
		return true
	}
	if e, ok := asServerError(err); ok && e.Number == erDuplicateEntry {
		return strings.Contains(e.Message, "'9223372036854775807'") && strings.Contains(e.Message, "PRIMARY")
	}
	return false
}

func asServerError(err error) (*mysql.MySQLError, bool) {
	var e *mysql.MySQLError
	return e, errors.As(err, &e)
}
