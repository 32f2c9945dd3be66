package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStatements(t *testing.T) {
	assert.Equal(t, []string{"DROP TABLE A", "CREATE TABLE B (\nC INT)", "commit"}, statements("# comment; more\nDROP TABLE A;\n\nCREATE TABLE B (\nC INT);\n #\ncommit;\n"))
}

func TestQuartzSettings(t *testing.T) {
	text, err := quartzSettings("root:secret@tcp(127.0.0.1:3999)/peers_1", "node-2", quartzBatch, []span{{t0, t0.Add(time.Second)}, {t0.Add(2 * time.Second), t0.Add(3 * time.Second)}})
	require.NoError(t, err)
	for _, l := range []string{
		"windows=1700000000000000-1700000001000000,1700000002000000-1700000003000000\n", "instanceId=node-2\n", "isClustered=true\n",
		"jdbc:mariadb://127.0.0.1:3999/peers_1\n", "password=secret\n", "batchTriggerAcquisitionMaxCount=50\n", "acquireTriggersWithinLock=true\n",
		"threadCount=64\n", "maxConnections=66\n",
	} {
		assert.Contains(t, text, l)
	}
}
