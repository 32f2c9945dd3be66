package schema_test

import (
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/tabletest"
	"github.com/qrtz-go/qrtz/schema"
)

// A row whose own values the server refuses is named; the others are written.
func TestARefusedRowIsNamed(t *testing.T) {
	f := tabletest.New(t)
	tables := schema.Tables{DB: f.Impatient(), Prefix: schema.DefaultPrefix}
	var ids []int64
	for i := range 7 {
		ids = append(ids, f.Insert(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FENCE) VALUES ('a', ?, ?)`, f.Job, 100*i))
	}
	tries := 0
	locked, err := tables.WriteEach(t.Context(), `QRTZ_RUN`, ids, func(ids []int64) error {
		tries++
		return tables.Write(t.Context(), `UPDATE QRTZ_RUN SET ATTEMPT = IF(FENCE IN (300, 500), -1, 7) WHERE ID IN (?)`, ids)
	})
	require.Empty(t, locked)
	require.ErrorContains(t, err, "row 4 of")
	require.ErrorContains(t, err, "row 6 of")
	require.Equal(t, int64(5), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE ATTEMPT = 7`))
	require.Less(t, tries, 12)
}

// A deadlock is tried again by the statement. If it were by the rows, too, one conflict would be tried sixty-four times.
func TestADeadlockIsTriedAgainOnlyByTheStatement(t *testing.T) {
	f := tabletest.New(t)
	tables := schema.Tables{DB: f.Impatient(), Prefix: schema.DefaultPrefix}
	tries := 0
	_, err := tables.WriteEach(t.Context(), `QRTZ_RUN`, []int64{1, 2}, func([]int64) error {
		tries++
		return &mysql.MySQLError{Number: 1213, Message: "Deadlock found"}
	})
	require.ErrorContains(t, err, "Deadlock")
	require.Equal(t, 1, tries)
}
