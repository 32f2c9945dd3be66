package schema

import (
	"errors"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Server error numbers that qrtz branches on.
const (
	erCheckViolatedMariaDB = 4025 // a row violates a CHECK constraint
	erCheckViolatedMySQL   = 3819
	erDuplicateCheckMySQL  = 3822 // the constraint exists already
	erDuplicateCheck       = 1826
	erDuplicateColumn      = 1060
	erDuplicateKeyName     = 1061
	erDuplicateEntry       = 1062
	erNoSuchTable          = 1146
	erRecordChanged        = 1020 // MariaDB snapshot isolation, and Galera
	erLockWaitTimeout      = 1205
	erDeadlock             = 1213
	erIncorrectString      = 1366 // MySQL gives it, and what follows, no class of its own
	erInvalidString        = 1300 // not of the connection's character set
	erCannotConvert        = 3854 // MySQL: a string, to the column's character set
	erCannotConvertParam   = 3988
	erCannotConvertMariaDB = 1977
)

// Retryable tells whether the server rolled a transaction back because of others, so that running
// it again may work: deadlock, lock wait timeout, record changed. COMMIT can return these too. An error that came after a COMMIT
// (ErrCommitUnknown) says nothing about the transaction, whatever its number.
func Retryable(err error) bool {
	return !errors.Is(err, ErrCommitUnknown) && isNumber(err, erDeadlock, erLockWaitTimeout, erRecordChanged)
}

// Locked tells whether a row was not to be had because another transaction holds it, and has held it for longer than
// the session waits. The transaction may still be open.
func Locked(err error) bool { return Retryable(err) && isNumber(err, erLockWaitTimeout) }

// RowFault tells whether the server refused a statement because of the values in some row, its own or a new one: out of
// range, of the wrong character set, against a constraint. The other rows of the statement would have been taken.
func RowFault(err error) bool {
	var e *mysql.MySQLError
	if errors.Is(err, ErrCommitUnknown) || noIDLeft(err) || !errors.As(err, &e) {
		return false
	}
	class := string(e.SQLState[:2])
	return class == "22" || class == "23" || class == "45" || // 45: an operator's trigger
		isNumber(err, erIncorrectString, erInvalidString, erCannotConvert, erCannotConvertParam, erCannotConvertMariaDB,
			erCheckViolatedMariaDB, erCheckViolatedMySQL)
}

// Duplicate tells whether a row was refused because its key exists.
func Duplicate(err error) bool { return isNumber(err, erDuplicateEntry) }

// DuplicateKey tells whether a row was refused because it is in the unique key of a name.
func DuplicateKey(err error, prefix Prefix, name string) bool {
	e, ok := asServerError(err)
	return ok && e.Number == erDuplicateEntry && strings.HasSuffix(strings.TrimRight(e.Message, "'"), prefix.SQL(name))
}

func alreadyThere(err error) bool {
	return isNumber(err, erDuplicateColumn, erDuplicateKeyName, erDuplicateCheck, erDuplicateCheckMySQL)
}

// NoSuchTable tells whether the server refused a statement because it has no such table.
func NoSuchTable(err error) bool { return isNumber(err, erNoSuchTable) }

func isNumber(err error, numbers ...uint16) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return false
	}
	for _, n := range numbers {
		if e.Number == n {
			return true
		}
	}
	return false
}
