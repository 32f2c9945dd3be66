package schema_test

import (
	"testing"

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
