package qrtztest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyTheFirstDatabaseIsMigrated(t *testing.T) {
	Database(t)
	template.Lock()
	template.statements = append(template.statements, "CREATE TABLE OF_THE_TEMPLATE (ID INT PRIMARY KEY)")
	template.Unlock()
	t.Cleanup(func() { template.statements = template.statements[:len(template.statements)-1] })
	_, err := Database(t).ExecContext(t.Context(), "INSERT INTO OF_THE_TEMPLATE VALUES (1)")
	require.NoError(t, err)
}
