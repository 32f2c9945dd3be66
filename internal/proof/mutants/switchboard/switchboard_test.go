package switchboard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// with turns a point on, and says what is noted as reached.
func with(t *testing.T, id int) (points []byte) {
	t.Helper()
	oldActive, oldReached := active, reached
	t.Cleanup(func() { active, reached = oldActive, oldReached })
	active, reached = id, make([]byte, 10)
	return reached
}

func yes() bool { return true }
func no() bool  { return false }

func TestNothingIsChangedWithoutTheNumber(t *testing.T) {
	now := time.Now()
	for _, id := range []int{0, 8} {
		with(t, id)
		assert.True(t, Keep(1))
		assert.True(t, Not(1, true))
		assert.False(t, And(1, true, no))
		assert.True(t, Or(1, true, no))
		assert.False(t, Less(1, 2, 2))
		assert.True(t, LessEqual(1, 2, 2))
		assert.False(t, Greater(1, 2, 2))
		assert.True(t, GreaterEqual(1, 2, 2))
		assert.False(t, Before(1, now, now))
		assert.False(t, After(1, now, now))
		assert.Equal(t, 5, More(1, 5))
		assert.Equal(t, 5, Fewer(1, 5))
		assert.Equal(t, time.Second, Lasting(1, 2, time.Second))
		assert.Equal(t, "a", Text("a", 1, "b"))
	}
}

func TestTheNumberChangesItsPoint(t *testing.T) {
	now := time.Now()
	points := with(t, 1)
	assert.False(t, Keep(1))
	assert.False(t, Not(1, true))
	assert.True(t, And(1, true, no))
	assert.False(t, Or(1, true, no))
	assert.True(t, Less(1, 2, 2))
	assert.False(t, Less(1, 3, 2))
	assert.False(t, LessEqual(1, 2, 2))
	assert.True(t, LessEqual(1, 1, 2))
	assert.True(t, Greater(1, 2, 2))
	assert.False(t, GreaterEqual(1, 2, 2))
	assert.True(t, Before(1, now, now))
	assert.False(t, Before(1, now.Add(1), now))
	assert.True(t, After(1, now, now))
	assert.Equal(t, int64(6), More(1, int64(5)))
	assert.Equal(t, 4, Fewer(1, 5))
	assert.Equal(t, 2*time.Second, Lasting(1, 2, time.Second))
	assert.Zero(t, Lasting(2, 1, time.Second))
	assert.Equal(t, "b", Text("a", 2, "c", 1, "b"))
	assert.Equal(t, []byte{0, 1, 1, 0}, points[:4])
}

func TestWhatIsReachedIsNoted(t *testing.T) {
	points := with(t, 0)
	Text("a", 1, "b")
	assert.NotContains(t, points, byte(1), "when a process starts")
	TextHere("a", 2, "b", 3, "c")
	Used(4, "a")
	And(5, false, yes)
	Keep(100)
	assert.Equal(t, []byte{0, 0, 1, 1, 1, 1, 0, 0, 0, 0}, points)
}

func TestShortCircuitsStay(t *testing.T) {
	with(t, 0)
	unreached := func() bool { panic("reached") }
	assert.False(t, And(1, false, unreached))
	assert.True(t, Or(1, true, unreached))
}
