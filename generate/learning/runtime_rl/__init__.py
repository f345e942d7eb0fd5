"""Runtime RL: hidden problems that are solved within a budget of steps."""
