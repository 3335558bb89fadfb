"""Long conversations of real agents: their script, their model, and an agent of each framework."""
