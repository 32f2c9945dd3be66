package schema_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

// A run with the greatest id leaves none for others, also after it has been deleted.
func TestNoIDLeftIsExplained(t *testing.T) {
	db := filled(t)
	const insert = `INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID) VALUES ('a', 1)`
	explained := func() error {
		_, err := db.ExecContext(t.Context(), insert)
		return schema.ExplainNoID(err, schema.DefaultPrefix, "QRTZ_RUN")
	}
	exec(t, db, `UPDATE QRTZ_RUN SET ID = 2`)
	require.NoError(t, explained())
	exec(t, db, `INSERT INTO QRTZ_RUN (ID, APPLICATION, JOB_ID) VALUES (9223372036854775807, 'a', 1)`)
	require.ErrorContains(t, explained(), "ALTER TABLE QRTZ_RUN AUTO_INCREMENT = 1")
	exec(t, db, `DELETE FROM QRTZ_RUN WHERE ID >= 9000000000000000000`)
	err := explained()
	if err == nil { // MySQL gives the last id once more
		err = explained()
	}
	require.ErrorContains(t, err, "ALTER TABLE QRTZ_RUN AUTO_INCREMENT = 1")
	exec(t, db, `DELETE FROM QRTZ_RUN WHERE ID >= 9000000000000000000`)
	exec(t, db, `ALTER TABLE QRTZ_RUN AUTO_INCREMENT = 1`)
	require.NoError(t, explained())
	assert.Equal(t, "'1'", one(t, db, `SELECT MAX(ID) < 10 FROM QRTZ_RUN`))
}
