"""What is made of results and scenarios: figures, designs, sweeps, forecasts from data,
programs without giantstep.
"""
