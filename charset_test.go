package qrtz_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/schema"
)

// A caller's transaction may be on a session in whose character set a quote can hide, whatever the DSN says.
func TestAQuoteCannotHideInACallersTransaction(t *testing.T) {
	c := newCluster(t)
	s := c.client()
	require.NoError(t, s.Declare(t.Context(), qrtz.Job{Name: "post", Class: "post"}))
	tx := c.begin()
	_, err := tx.Exec(`SET NAMES gbk`)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = c.db.Exec(`SET NAMES utf8mb4`) })
	_, err = s.In(tx).Enqueue(t.Context(), "post", letter{"\xbf' OR 1 = 1 -- "})
	var unsafe *schema.UnsafeCharsetError
	require.ErrorAs(t, err, &unsafe)
	require.ErrorContains(t, err, `character_set_client is gbk`)
	_, err = tx.Exec(`SET NAMES utf8mb4`)
	require.NoError(t, err)
	_, err = s.In(tx).Enqueue(t.Context(), "post", letter{"\xbf' OR 1 = 1 -- "})
	require.NoError(t, err, "the session is right again, and the transaction goes on")
}

func TestANodeDoesNotStartWhereAQuoteCanHide(t *testing.T) {
	c := newCluster(t)
	dsn := c.dsn + "&character_set_client=gbk"
	if !strings.Contains(c.dsn, "?") {
		dsn = c.dsn + "?character_set_client=gbk"
	}
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	s, err := qrtz.Open(db, quick("n1"))
	require.NoError(t, err)
	err = s.Run(context.Background())
	require.ErrorContains(t, err, "charset=utf8mb4")
	require.Zero(t, c.count(`SELECT COUNT(*) FROM QRTZ_NODE`), "nothing was written")
}
