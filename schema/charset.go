package schema

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
)

// unsafeCharsets are the character sets that a session may have in which the second byte of a character can be a
// backslash. A client that puts values into statements (interpolateParams) escapes bytes; to the server, the backslash it
// adds then ends a character, and the quote behind it ends the value. gb2312, euckr and ujis have no such bytes.
var unsafeCharsets = []string{"big5", "cp932", "gb18030", "gbk", "sjis"}

// UnsafeCharsetError says that the server reads a session's statements in a character set in which a quote can hide.
type UnsafeCharsetError struct{ Charset string }

func (e *UnsafeCharsetError) Error() string {
	return fmt.Sprintf("character_set_client is %s, in which a quote can hide in a character: a value could become a part of a statement; "+
		"connect with charset=utf8mb4 in the DSN", e.Charset)
}

// SafeCharset returns an *UnsafeCharsetError if a quote can hide in a character set.
func SafeCharset(charset string) error {
	if slices.Contains(unsafeCharsets, charset) {
		return &UnsafeCharsetError{charset}
	}
	return nil
}

// SafeNow is Now, for sessions that others have set up: it returns an *UnsafeCharsetError if a quote
// can hide in the character set of q's session.
func SafeNow(ctx context.Context, q sqlx.QueryerContext) (time.Time, error) {
	var row struct {
		Micros  int64  `db:"NOW_MICROS"`
		Charset string `db:"CHARSET"`
	}
	if err := sqlx.GetContext(ctx, q, &row, `SELECT `+NowSQL+` AS NOW_MICROS, @@character_set_client AS CHARSET`); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return time.UnixMicro(row.Micros).UTC(), SafeCharset(row.Charset)
}
