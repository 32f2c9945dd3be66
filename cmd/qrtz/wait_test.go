package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		assert.NoError(t, every(t.Context(), time.Second, func() (bool, error) {
			tries++
			return tries == 4, nil
		}))
		assert.Equal(t, 3*time.Second, time.Since(began), "the first at once")

		wrong := errors.New("wrong")
		assert.ErrorIs(t, every(t.Context(), time.Second, func() (bool, error) { return false, wrong }), wrong)

		w := waitFlags{timeout: 5 * time.Second}
		ctx, cancel := w.within(t.Context())
		defer cancel()
		began = time.Now()
		assert.ErrorIs(t, every(ctx, 2*time.Second, func() (bool, error) { return false, nil }), errStillRunning)
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.ErrorIs(t, every(ctx, time.Second, func() (bool, error) { return false, ctx.Err() }), errStillRunning, "not what the attempt said of it")

		ctx, cancel = new(waitFlags).within(t.Context())
		time.AfterFunc(time.Hour, cancel)
		assert.ErrorIs(t, every(ctx, time.Minute, func() (bool, error) { return false, nil }), context.Canceled, "without end")
	})
}
