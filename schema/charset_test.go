package schema_test

import (
	"database/sql"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
	"github.com/qrtz-go/qrtz/schema"
)

// The five are those of the server's character sets whose characters can end with the byte of a backslash: each is
// asked for one.
func TestCharacterSetsInWhichAQuoteCanHideAreRefused(t *testing.T) {
	db := testdb.New(t)
	db.SetMaxOpenConns(1)
	dbx := sqlx.NewDb(db, "mysql")
	refused := []string{"big5", "cp932", "gb18030", "gbk", "sjis"}
	for _, charset := range []string{"utf8mb4", "utf8mb3", "latin1", "ascii", "binary", "gb2312", "euckr", "ujis", "eucjpms", "tis620", "gbk", "big5", "sjis", "cp932", "gb18030"} {
		if _, err := db.ExecContext(t.Context(), `SET character_set_client = `+charset); err != nil {
			var e *mysql.MySQLError
			require.ErrorAs(t, err, &e)
			require.EqualValues(t, 1115, e.Number, charset) // MariaDB has no gb18030
			continue
		}
		_, err := schema.SafeNow(t.Context(), dbx)
		_, errSettings := schema.Settings(t.Context(), dbx)
		if hides := hidesAQuote(t, db, charset); !hides {
			assert.NotContains(t, refused, charset)
			assert.NoError(t, err, charset)
			assert.NoError(t, errSettings, charset)
			continue
		}
		var unsafe *schema.UnsafeCharsetError
		for _, err := range []error{err, errSettings} {
			require.ErrorAs(t, err, &unsafe, charset)
			assert.Equal(t, charset, unsafe.Charset)
			assert.ErrorContains(t, err, "charset=utf8mb4")
		}
	}
}

// hidesAQuote tells whether the server takes a lead byte and the backslash that a client puts before a quote for one
// character: the quote then ends the text.
func hidesAQuote(t *testing.T, db *sql.DB, charset string) bool {
	t.Helper()
	for lead := 0x80; lead <= 0xff; lead++ {
		// Two texts if the backslash belongs to the character before it, else one that does not end.
		r, err := db.QueryContext(t.Context(), `SELECT '`+string([]byte{byte(lead)})+`\', 'x'`)
		if err == nil {
			defer func() { require.NoError(t, r.Close()) }()
			require.NoError(t, r.Err())
			return true
		}
	}
	return false
}
