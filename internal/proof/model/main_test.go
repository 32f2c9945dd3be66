package main

import (
	"context"
	"database/sql"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/throwaway"
	"github.com/qrtz-go/qrtz/schema"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if throwaway.Stop() != nil {
		code = 1
	}
	os.Exit(code)
}

func testWorld(t *testing.T) *world {
	t.Helper()
	d, err := throwaway.Create(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Drop()) })
	db, err := sql.Open("mysql", d.Config().FormatDSN())
	require.NoError(t, err)
	_, err = schema.Up(t.Context(), db, schema.DefaultPrefix)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	w, err := newWorld(context.WithoutCancel(t.Context()), d.Config())
	require.NoError(t, err)
	t.Cleanup(w.close)
	return w
}
