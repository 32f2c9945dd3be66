package main

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/examples/internal/program"
	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// There is one run for each order that was committed, and none for one that was not; also when it is started again.
func TestARunExistsExactlyIfItsOrderWasCommitted(t *testing.T) {
	dsn := testdb.DSN(t)
	for range 2 {
		shop := program.Start(t, dsn)
		shop.Wait()
		require.Contains(t, shop.Log(), "the order of Grace is rolled back, and with it run")
		require.Contains(t, shop.Log(), "confirms the order of Ada")
	}
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	count := func(query string) (n int) {
		require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n))
		return n
	}
	require.Equal(t, 2, count(`SELECT COUNT(*) FROM EXAMPLE_ORDERS`), "those of Ada")
	require.Equal(t, 2, count(`SELECT COUNT(*) FROM QRTZ_RUN`), "of which none is of Grace")
	require.Equal(t, 2, count(`SELECT COUNT(*) FROM EXAMPLE_ORDERS JOIN QRTZ_RUN ON QRTZ_RUN.ID = CONFIRMED_BY
		WHERE CUSTOMER = 'Ada' AND STATE = 'SUCCEEDED'`))
}
