package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A good history of a run that fails, is lost with its node, and fails again.
func attemptsOf(last float64) []ruleRun {
	one := run1(1, "FAILED", 1, 1, 2)
	two := one.next(2, "LOST", 3) // a pause of 1 s
	two.Finished = valid(sec(10))
	three := two.next(3, "FAILED", 10)
	three.Finished = valid(sec(11))
	four := three.next(4, "SUCCEEDED", last)
	return []ruleRun{one, two, three, four}
}

var thrice = ruleJob{Attempts: 3, Recovery: true, Backoff: 1000, MaxBackoff: 60000}

func TestAttemptsFollowEachOther(t *testing.T) {
	require.Empty(t, judged(story(thrice, attemptsOf(13))), "the pause has doubled: one attempt was lost, and two are spent")
}

func TestOneAttemptTooMany(t *testing.T) {
	job := thrice
	job.Attempts = 2
	require.Equal(t, []string{"attempts", "further attempt"}, judged(story(job, attemptsOf(13))))
}

func TestARecoveryThatWasNotAskedFor(t *testing.T) {
	job := thrice
	job.Recovery = false
	require.Equal(t, []string{"further attempt"}, judged(story(job, attemptsOf(13))))
}

func TestWhatMayNotBeTriedAgain(t *testing.T) {
	runs := attemptsOf(13)[:2]
	runs[1] = runs[0].next(2, "SUCCEEDED", 3)
	final := told1(1, 1, 2, false, ending{Final: true})
	require.Equal(t, []string{"further attempt"}, judged(story(thrice, runs, final)))
	runs[0].State = "CANCELLED"
	runs[0].Cancel = valid(sec(1))
	require.Equal(t, []string{"further attempt"}, judged(story(thrice, runs)))
	require.Empty(t, judged(story(thrice, runs[:1])))
}

func TestARunThatIsRecoveredTooOften(t *testing.T) {
	job := ruleJob{Attempts: 1, Recovery: true}
	runs := []ruleRun{run1(1, "LOST", 1, 1, 1.1)}
	for i := range 6 {
		runs = append(runs, runs[i].next(int64(i+2), "LOST", float64(i)+1.1))
		runs[i+1].Finished = valid(sec(float64(i) + 2.1))
	}
	require.Empty(t, judged(story(job, runs[:6])), "five times")
	require.Equal(t, []string{"recoveries"}, judged(story(job, runs)))
	runs[2].Recovers = 1
	require.Equal(t, []string{"recoveries"}, judged(story(job, runs[:6])), "of another run")
}

func TestPausesBetweenAttempts(t *testing.T) {
	for _, last := range []float64{12, 12.5, 13.5} { // 1 s, 1.5 s, 2.5 s in place of 2 s
		require.Equal(t, []string{"backoff"}, judged(story(thrice, attemptsOf(last))), last)
	}
	require.Empty(t, judged(story(thrice, attemptsOf(13.35))), "by less than a fifth")
	job := thrice
	job.MaxBackoff = 1000
	require.Empty(t, judged(story(job, attemptsOf(12))), "it grows no further")
	after := told1(3, 10, 11, false, ending{After: 1500})
	after.Recovers = 2
	require.Empty(t, judged(story(thrice, attemptsOf(12.5), after)), "as RetryAfter says")
	require.Equal(t, []string{"backoff"}, judged(story(thrice, attemptsOf(13), after)))
	late := attemptsOf(13)
	late[2].Available = sec(20).UnixMilli()
	require.Contains(t, judged(story(thrice, late)), "backoff", "a recovery does not wait")
}

func TestAnAttemptBeforeItsTime(t *testing.T) {
	runs := attemptsOf(13)
	runs[3].Claimed = valid(sec(12.5))
	require.Equal(t, []string{"early attempt"}, judged(story(thrice, runs)))
}

func TestARunThatIsNotTriedAgain(t *testing.T) {
	runs := attemptsOf(13)
	for n := 1; n <= 3; n++ {
		require.Equal(t, []string{"not tried again"}, judged(story(thrice, runs[:n])), n)
	}
	final := told1(1, 1, 2, false, ending{Final: true})
	require.Empty(t, judged(story(thrice, runs[:1], final)))
	interrupted := run1(1, "LOST", 1, 1, 2)
	interrupted.Message = "interrupted: its node stopped"
	require.Equal(t, []string{"not tried again"}, judged(story(ruleJob{Attempts: 2}, []ruleRun{interrupted})))
	require.Empty(t, judged(story(ruleJob{}, []ruleRun{interrupted})))
}
